"""Judge the jobs of a cluster by its metrics, and act on them through its engine."""
