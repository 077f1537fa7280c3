"""The conditions of `unless`: what besides a GPU speaks against acting, of the machine and of one job."""
