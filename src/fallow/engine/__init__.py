"""The hall where eyes, policies and hands meet."""
