"""Read whose a process is: traces in /proc first, then what notebook servers, container engines and systemd say."""
