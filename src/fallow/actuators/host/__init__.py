"""What is done to the machine: power, terminals, files, sockets, users, notices."""
