"""Notices to people: what is sent, when, and to whom."""
