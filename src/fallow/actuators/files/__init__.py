"""Files that others can reach: written whole, locked, and only in folders that nobody else can change."""
