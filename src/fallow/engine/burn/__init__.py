"""`fallow burn`: one worker process for each GPU."""
