"""`fallow guard`: wait for work to begin and to end, then act once."""
