"""Values as text, tables, JSON, HTML and metrics."""
