"""Pure functions that decide what readings mean and what should be done."""
