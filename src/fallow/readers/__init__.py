"""Eyes: what they cannot see becomes Unknown, never an exception and never a zero."""
