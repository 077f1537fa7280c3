"""Other hosts, asked over the user's own ssh: which there are, what they answer, and a launch on one of them."""
