"""Stop a job where it was started: through its Jupyter server, its container engine or systemd."""
