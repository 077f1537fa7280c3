"""Read a Kubernetes cluster: the pods that hold GPUs, what runs them, and the nodes."""
