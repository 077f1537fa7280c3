"""`fallow up`: fillers, guards, idle rules, history and notices in one loop."""
