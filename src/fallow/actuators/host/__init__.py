"""Change the machine: power, terminals, sockets, users, notices."""
