"""Mark GPUs that are filled: a filler yields, so the GPU is available.

A mark is a lock in the GPU's claim file, held for exactly as long as the filler is on the GPU. Any user can lock
that byte and write that label, so a mark counts only after a check of the processes.
"""

import os
from contextlib import suppress

from fallow.actuators.claims.claims import FILLER_BYTE, ClaimFile, label_of, read_label
from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim

_LABEL_AT = 8192
_LABEL_BYTES = 4096
_TRIES = 50


def mark_filled(folder: ClaimFolder, uuid: str, label: Claim) -> ClaimFile | None:
    """Mark a GPU as filled, until the file is closed; None if another filler has it, so there are never two on it."""
    for _ in range(_TRIES):
        file = ClaimFile(folder.open(uuid))
        if not ofd_locks.take(file.fd, FILLER_BYTE):
            file.close()
            return None
        if folder.still_there(uuid, file.identity):
            with suppress(OSError):  # on a full disk the mark works without its label
                os.pwrite(file.fd, label_of(label).ljust(_LABEL_BYTES)[:_LABEL_BYTES], _LABEL_AT)
            return file
        file.close()  # the file was removed meanwhile: a lock on it excludes no process
        folder.refresh()
    return None


def filler_on(file: ClaimFile) -> Claim | None:
    """Return what the label says of the filler on the GPU; None if there is no filler."""
    if ofd_locks.other(file.fd, FILLER_BYTE, FILLER_BYTE) is None:
        return None
    return read_label(False, os.pread(file.fd, _LABEL_BYTES, _LABEL_AT))
