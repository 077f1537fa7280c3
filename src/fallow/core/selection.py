"""Select GPUs: by a person's list, or by CUDA_VISIBLE_DEVICES.

Indices are NVML's, which are in PCI order; CUDA counts the same way only under CUDA_DEVICE_ORDER=PCI_BUS_ID.
UUIDs are safe everywhere.
"""

import re
from collections.abc import Sequence

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.units import is_number
from fallow.core.unknown import Unknown

_UUID_BEGIN = re.compile(r"(gpu|mig)-|[0-9a-f]{6}")


def select(text: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs that a person named: `0,2`, `0-3`, `0:1`, UUIDs or their prefixes, `all`."""
    chosen: dict[str, Gpu] = {}
    for raw in text.split(","):
        word = raw.strip()
        found = _select_one(word, gpus)
        if not found:
            how = "; a range is written 0-3" * ("-" in word)
            raise WrongUsage(f"there is no GPU {word!r} here", f"there {_inventory(gpus)}{how}")
        chosen.update((gpu.label, gpu) for gpu in found)
    return tuple(chosen.values())


def visible(value: str | None, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs that a value of CUDA_VISIBLE_DEVICES allows, as CUDA reads it.

    Unset allows all. CUDA stops at the first entry that names no GPU, and treats a list with an entry twice as empty.
    """
    if value is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for raw in value.split(","):
        found = _visible_one(raw.strip(), gpus)
        if found is None:
            break
        if found in chosen:
            return ()
        chosen.append(found)
    return tuple(chosen)


def named_and_visible(
    named: str | None, visible_devices: str | None, gpus: Sequence[Gpu]
) -> tuple[tuple[Gpu, ...], tuple[Gpu, ...]]:
    """Return the GPUs of a person's list (None: all): those that CUDA_VISIBLE_DEVICES shows, and those it hides."""
    listed = tuple(gpus) if named is None else select(named, gpus)
    seen = {gpu.label for gpu in visible(visible_devices, gpus)}
    return tuple(gpu for gpu in listed if gpu.label in seen), tuple(gpu for gpu in listed if gpu.label not in seen)


def names_by_index(value: str) -> bool:
    """Return whether a value of CUDA_VISIBLE_DEVICES uses indices, whose meaning depends on CUDA_DEVICE_ORDER."""
    return any(is_number(word.strip()) for word in value.split(","))


def _select_one(word: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    if word == "all":
        return list(gpus)
    first, dash, last = word.partition("-")
    if is_number(first) and dash and is_number(last):
        wanted = range(int(first), int(last) + 1)
        there = {gpu.index for gpu in gpus}
        missing = next((index for index in wanted if index not in there), None)
        if missing is not None or not wanted:
            if missing is None:
                raise WrongUsage(f"{word!r} runs backwards", f"write it as {last}-{first}")
            raise WrongUsage(f"there is no GPU {missing} here", f"there {_inventory(gpus)}")
        return [gpu for gpu in gpus if gpu.index in wanted]
    if is_number(word):
        return [gpu for gpu in gpus if gpu.index == int(word)]
    by_label = [gpu for gpu in gpus if gpu.label == word]
    return by_label or _by_uuid_prefix(word, gpus)


def _by_uuid_prefix(word: str, gpus: Sequence[Gpu]) -> list[Gpu]:
    lowered = word.lower()
    if not _UUID_BEGIN.match(lowered):  # a slip of one letter must not name a GPU
        return []
    matches = [
        gpu
        for gpu in gpus
        if not isinstance(gpu.uuid, Unknown)
        and any(form.startswith(lowered) for form in (gpu.uuid.lower(), gpu.uuid.lower().split("-", 1)[-1]))
    ]
    if len(matches) > 1 and all(gpu.uuid != word for gpu in matches):
        raise WrongUsage(f"{word!r} fits {len(matches)} GPUs", "write more of the UUID")
    return matches


def _visible_one(word: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if is_number(word):
        return next((gpu for gpu in gpus if gpu.index == int(word)), None)  # of a card in MIG mode the first instance
    if not word.startswith(("GPU-", "MIG-")):
        return None
    fits = [gpu for gpu in gpus if not isinstance(gpu.uuid, Unknown) and gpu.uuid.startswith(word)]
    if len(fits) == 1:
        return fits[0]
    inside = [gpu for gpu in gpus if gpu.mig is not None and gpu.mig.parent_uuid == word]
    return inside[0] if inside and not fits else None


def _inventory(gpus: Sequence[Gpu]) -> str:
    labels = [gpu.label for gpu in gpus]
    return f"is only {labels[0]}" if len(labels) == 1 else f"are {', '.join(labels)}"
