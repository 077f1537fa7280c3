"""Find the command that installs a missing package into this installation of fallow.

fallow may run from a clone, and Debian refuses packages for its own Python. The interpreter that runs fallow can
always be given a package: by its pip or, if it has none, by uv.
"""

import sys

from fallow.core.shell_word import shell_word

_PACKAGES = {
    "cuda": "'cuda-bindings>=12.8'",
    "cuda-bindings": "'cuda-bindings>=12.8'",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
}


def remedy(module: str) -> str:
    """Return the command that installs what is imported by this name."""
    from importlib.util import find_spec  # noqa: PLC0415  loaded only where something is missing

    name = module.partition(".")[0]
    packages, python = _PACKAGES.get(name, name), shell_word(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"
