"""Ask the daemons of other machines what their GPUs do, and add up their reports."""
