"""Pure decisions: what the values mean and what should follow."""
