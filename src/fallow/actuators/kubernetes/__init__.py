"""Change objects of a Kubernetes cluster: warn on them, stop them, and let them run again."""
