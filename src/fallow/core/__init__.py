"""Values and pure functions: nothing here touches the world."""
