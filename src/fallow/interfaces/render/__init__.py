"""Render values as text, tables, JSON, HTML and metrics."""
