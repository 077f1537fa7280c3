"""Read what all GPUs of a cluster did from a Prometheus."""
