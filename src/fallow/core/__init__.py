"""Values and pure functions, without any input or output."""
