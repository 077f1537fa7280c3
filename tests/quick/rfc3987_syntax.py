"""Stands before a package of the same name, which takes four seconds of CPU time to import.

jsonschema reads addresses with it if it is there, and Jupyter and JupyterHub import jsonschema. Nobody here needs it.
"""

raise ImportError("the tests do without it")
