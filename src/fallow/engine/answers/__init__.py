"""What people and programs ask of this machine: status, idle, why, report; and what they protect."""
