"""The daemon's unix socket."""
