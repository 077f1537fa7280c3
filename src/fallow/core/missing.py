"""What to type where a package is not installed: a command that adds it to this very installation.

fallow may have come from a clone, and Debian lets nobody install into its own Python; the interpreter that runs us
can always be given a package, by its pip or, where it has none, by uv.
"""

import sys

_PACKAGES = {
    "cuda": "'cuda-bindings>=12.8'",
    "cuda-bindings": "'cuda-bindings>=12.8'",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
}


def remedy(module: str) -> str:
    """The command that installs what is imported by this name."""
    name = module.partition(".")[0]
    return install(_PACKAGES.get(name, name))


def install(packages: str) -> str:
    """The command that installs these packages, as they would be written on a command line."""
    from importlib.util import find_spec  # noqa: PLC0415  only those who lack something pay for it

    if find_spec("pip") is None:
        return f"uv pip install --python {sys.executable} {packages}"
    return f"{sys.executable} -m pip install {packages}"
