"""The environment for processes that fallow starts: the one that fallow was started with."""

from collections.abc import Mapping

from fallow.readers.proc import Proc

_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python sets LC_CTYPE to, the first that the system has
_OF_A_LAUNCH = ("FALLOW_CLAIM", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def given_environ(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment that fallow was started with.

    In the C locale Python sets LC_CTYPE before it runs any code of ours (PEP 538). The kernel's copy of our first
    environment shows whether it was set before.
    """
    coerced = environ.get("LC_CTYPE")
    if coerced not in _COERCED:
        return environ
    given = Proc().own_environ()
    if given is None or given.get("LC_CTYPE") == coerced:
        return environ
    others = {name: text for name, text in environ.items() if name != "LC_CTYPE"}
    return {**others, "LC_CTYPE": given["LC_CTYPE"]} if "LC_CTYPE" in given else others


def without_gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that give GPUs to a job, for a process that needs none."""
    return {name: text for name, text in environ.items() if name not in _OF_A_LAUNCH}
