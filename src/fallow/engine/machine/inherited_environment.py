"""The environment for processes that fallow starts: what fallow's own caller gave it."""

from collections.abc import Mapping

from fallow.readers.proc import Proc

_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python sets LC_CTYPE to, the first that the system has
_OF_A_LAUNCH = ("FALLOW_CLAIM", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def given_environ(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment as whoever started us gave it, for what we start in turn.

    In the C locale Python puts LC_CTYPE into its own environment before it runs a line of ours (PEP 538). What the
    kernel keeps of our start shows whether it was there.
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
