"""fallow as a Python library, with the same functions as the command line."""
