"""Questions to the daemon of this machine: where its socket is, the request, and the values of its answer."""
