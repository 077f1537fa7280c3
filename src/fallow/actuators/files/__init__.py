"""Files that others can reach: written whole, locked, and only in folders that no other user can change."""
