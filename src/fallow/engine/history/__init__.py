"""What was observed and done, kept on disk: the journal, the history of each GPU, and reports from both."""
