"""Why GPUs were refused, in lines: those that were meant first, and all that were left out by a list in one line."""

from collections.abc import Iterator, Mapping, Sequence

from fallow.core.reasons import Reason

_LEFT_OUT = (str(Reason("not_listed")), str(Reason("hidden")))


def lines(refused: Mapping[str, str]) -> Iterator[str]:
    """Return a line for each GPU that could have been given, then one for all that each list leaves out."""
    for label, why in refused.items():
        if why not in _LEFT_OUT:
            yield f"GPU {label}: {why}"
    for left_out in _LEFT_OUT:
        labels = [label for label, why in refused.items() if why == left_out]
        if labels:
            yield f"GPU {folded(labels)}: {left_out}"


def folded(labels: Sequence[str]) -> str:
    """Return labels as --gpus takes them: `0,2-7`."""
    runs: list[list[str]] = []
    for label in labels:
        follows = (
            bool(runs) and label.isdecimal() and runs[-1][-1].isdecimal() and int(label) == int(runs[-1][-1]) + 1
        )
        if follows:
            runs[-1].append(label)
        else:
            runs.append([label])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs)
