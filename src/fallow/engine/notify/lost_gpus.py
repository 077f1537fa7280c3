"""Reports GPUs that are lost and GPUs that are back, once each, after it has lasted for a while."""

from fallow.core.findings import Verdict
from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice
from fallow.core.reasons import Reason
from fallow.engine.history.run import Run

_LASTS_S = 10.0  # a driver that is busy for a moment has lost nothing


class LostGpus:
    """Compares snapshots. A GPU is known by its index, because the UUID of a lost one may not be readable."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._keys: dict[str, str] = {}
        self._since_s: dict[str, float] = {}
        self._lost: set[str] = set()

    def turn(self, snapshot: Snapshot) -> None:
        """Compare one snapshot with the ones before, and report what has lasted."""
        troubles = {gpu.label: gpu.trouble for gpu in snapshot.gpus}
        for gpu in snapshot.gpus:
            if isinstance(gpu.uuid, str):
                self._keys[gpu.label] = f"gpu:{gpu.uuid}"
            if gpu.mig is None:
                self._keys.setdefault(gpu.label, f"gpu:{gpu.label}")
        for label in list(self._keys):
            if label not in troubles and ":" in label:
                self._forget(label)  # a MIG instance that was destroyed is not lost
                continue
            trouble = troubles.get(label, "the driver does not list it any more")
            if trouble is None:
                self._is_fine(label)
            else:
                self._is_in_trouble(label, trouble, snapshot.at_s)

    def _is_in_trouble(self, label: str, trouble: str, at_s: float) -> None:
        since_s = self._since_s.setdefault(label, at_s)
        if label in self._lost or at_s - since_s < _LASTS_S:
            return
        self._lost.add(label)
        self._say(label, "lost", Reason("card_lost", gpu=label, trouble=trouble))

    def _is_fine(self, label: str) -> None:
        self._since_s.pop(label, None)
        if label in self._lost:
            self._lost.discard(label)
            self._say(label, "back", Reason("card_back", gpu=label))

    def _forget(self, label: str) -> None:
        self._lost.discard(label)
        self._since_s.pop(label, None)
        del self._keys[label]

    def _say(self, label: str, finding: str, reason: Reason) -> None:
        key = self._keys[label]
        self._run.journal.verdict(Verdict(f"GPU {label}", finding, reason), [key])
        self._run.say(str(reason))
        self._run.report.notify(Notice("card_lost" if finding == "lost" else "card_back", key, str(reason)))
