"""GPUs that this program has claimed."""

import os
from collections.abc import Mapping
from typing import Any

from fallow.core.errors import WrongUsage
from fallow.engine.allocate.claim import Claimed
from fallow.interfaces.python.gpus import Gpu, Gpus, gpus_as_html
from fallow.interfaces.render.as_json import gpu_facts

_held: "list[ClaimedGpus]" = []


class ClaimedGpus:
    """GPUs that this program has claimed: nobody else is given them until they are released."""

    def __init__(self, claimed: Claimed, variables: Mapping[str, str]) -> None:
        self._claims = claimed.claims
        self._gpus = Gpus(Gpu(gpu_facts(gpu)) for gpu in claimed.gpus)
        self._set = dict(variables)
        self._before = {name: os.environ.get(name) for name in variables}
        self._is_released = False
        os.environ.update(variables)
        _held.append(self)

    @property
    def gpus(self) -> Gpus:
        """Return the GPUs, also after they were released."""
        return self._gpus

    @property
    def is_released(self) -> bool:
        """Return whether the claim has ended."""
        return self._is_released

    def release(self) -> None:
        """End the claim now, and restore the environment if it was set. Nothing happens the second time.

        A variable that was changed in the meantime is left as it is. In a forked process this ends nothing: the
        claim is that of the process that made it.
        """
        if self._is_released:
            return
        self._is_released = True
        if self in _held:
            _held.remove(self)
        for name, before in self._before.items():
            if os.environ.get(name) != self._set[name]:
                continue
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before
        for held in self._claims:
            held.end()

    def to_dict(self) -> dict[str, Any]:
        """Return the GPUs as `fallow pick --format json` prints them."""
        return self._gpus.to_dict()

    def __enter__(self) -> Gpus:
        if self._is_released:
            raise WrongUsage("the claim was released", "claim GPUs again")
        return self._gpus

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        labels = ", ".join(gpu.label for gpu in self._gpus)
        return f"<ClaimedGpus {labels}{' (released)' if self._is_released else ''}>"

    def _repr_html_(self) -> str:
        return gpus_as_html(self._gpus, "released" if self._is_released else "")


class Claims(tuple[ClaimedGpus, ...]):
    """What a program has claimed."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return Gpus(gpu for each in self for gpu in each.gpus)._repr_html_() if self else "nothing is claimed"


def claimed() -> Claims:
    """Return what this program has claimed and not released, also if no variable has it any more."""
    return Claims(_held)
