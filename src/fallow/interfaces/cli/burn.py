"""`fallow burn`: a built-in load that holds memory, keeps a GPU warm, or tests it and checks its results."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from fallow.core.errors import CardFailed, NoDriver
from fallow.core.units import bytes_for_people, duration_for_people, ratio, size_bytes, span_s
from fallow.core.unknown import Unknown
from fallow.engine.burn.parent import Burned, BurnRequest, burn
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, chooses, takes, typed
from fallow.interfaces.stderr import Stderr
from fallow.workloads.work import SIMULATED_SCALE, Ask, Load

ABOUT = """\
Load GPUs, one process each, until Ctrl-C or for some time: occupy memory, keep
them warm, or drive their tensor cores to the power limit. SIGTERM frees the
memory first. It does not yield; `fallow fill -- fallow burn` does."""
EXAMPLES = """\
  fallow burn --gpus 0 --load matmul --verify --for 10m
  fallow burn --load matmul --for 1h --json > burn-in.json
  fallow burn --memory 20GiB
  fallow fill -- fallow burn"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow burn`."""
    add = partial(takes, made)
    add("--gpus LIST", str, "load only these: 0,2 or 0-3, UUIDs or how they begin (default: all)")
    add(
        "--memory P|SIZE",
        _memory,
        "how much memory to occupy: per cent of what is free, or a size such as 20GiB (default: 88%%)",
        (0.88, None),
    )
    chooses(
        made,
        "--load",
        Load,
        "memory occupies memory and computes nothing, warm computes a little ten times a second, matmul "
        "multiplies matrices without a pause (default: memory)",
        "memory",
        metavar="LOAD",
    )
    made.add_argument(
        "--verify",
        action="store_true",
        help="check memory and results, count wrong words, and exit with 1 if there are any",
    )
    add("--for D", span_s, "stop after so long (default: at Ctrl-C)", dest="for_s")
    made.add_argument("--json", action="store_true", help="print the closing table as JSON")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Load the GPUs, and print the results."""
    share, size = args.memory
    request = BurnRequest(Ask(Load(args.load), args.verify, share, size), args.gpus, args.for_s)
    progress = _Progress(shown=sys.stderr is not None and sys.stderr.isatty() and not voice.as_json)
    try:
        results = burn(world, request, progress.show)
    finally:
        progress.clear()
    _tell_failures(results, voice)
    if args.json:
        from fallow.interfaces.render.as_json import as_text
        from fallow.interfaces.render.burn_json import as_json

        print(as_text(as_json(request, results, simulated=world.simulated is not None)))
    else:
        _table(results, simulated=world.simulated is not None)
    return _code(results)


def _tell_failures(cards: Sequence[Burned], voice: Stderr) -> None:
    if all(card.failed is not None and card.code == NoDriver.exit_code for card in cards):
        raise NoDriver(str(cards[0].failed))  # all GPUs have the same reason
    for card in cards:
        if card.failed is not None:
            voice.error(f"GPU {card.gpu.label}: {card.failed}")
        elif card.tally.wrong_words:
            voice.error(f"GPU {card.gpu.label}: {card.tally.wrong_words} wrong words: this card is not to be trusted")


def _code(burned: Sequence[Burned]) -> int:
    """Return 1 if a GPU computed wrongly; else the code of the first that could not be loaded; else 0."""
    codes = [CardFailed.exit_code if card.tally.wrong_words else card.code for card in burned]
    return CardFailed.exit_code if CardFailed.exit_code in codes else next((code for code in codes if code), 0)


def _memory(text: str) -> tuple[float | None, int | None]:
    """Return a share of the free memory, or a number of bytes."""
    if text.strip().endswith("%") or text.strip().replace(".", "", 1).isdigit():
        share = typed(ratio)(text)
        if share == 0:
            raise argparse.ArgumentTypeError("0 per cent of the memory is nothing to hold")
        return share, None
    return None, typed(size_bytes)(text)


def _rate(card: Burned) -> str:
    return f"{card.tally.flop / card.seconds / 1e12:.1f} TFLOP/s" if card.tally.flop and card.seconds else "-"


def _traffic(card: Burned) -> str:
    moved = card.tally.moved_bytes
    return f"{moved / card.seconds / 1e9:.0f} GB/s" if moved and card.seconds else "-"


def _power(card: Burned) -> str:
    seen = card.measured
    if isinstance(seen.power_w, Unknown):
        return "?"
    return (
        f"{seen.power_w:.0f} W"
        if isinstance(seen.power_limit_w, Unknown)
        else (f"{seen.power_w:.0f} of {seen.power_limit_w:.0f} W")
    )


def _heat(card: Burned) -> str:
    hottest = card.measured.temperature_max_c
    return "?" if isinstance(hottest, Unknown) else f"{hottest} °C"


def _throttling(card: Burned) -> str:
    reasons = card.measured.throttled_by
    return "?" if isinstance(reasons, Unknown) else ", ".join(reasons) or "none"


def _errors(card: Burned) -> str:
    if card.failed is not None:
        return "failed"
    return str(card.tally.wrong_words) if card.tally.checked_bytes else "not checked"


def _table(results: Sequence[Burned], *, simulated: bool) -> None:
    from fallow.interfaces.render.table import show_rows

    title = f"simulated GPUs: 1/{SIMULATED_SCALE} of the memory, and no rates" if simulated else None
    columns = ("GPU", "for", "memory", "rate", "traffic", "power", "hottest", "throttled by", "errors")
    show_rows(
        title,
        columns,
        [
            (
                card.gpu.label,
                duration_for_people(card.seconds),
                bytes_for_people(card.tally.held_bytes),
                *(cell(card) for cell in (_rate, _traffic, _power, _heat, _throttling, _errors)),
            )
            for card in results
        ],
        left_out=("traffic", "throttled by", "memory", "power", "rate"),
    )


class _Progress:
    """Shows progress on one line of the terminal, which is overwritten."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._written = False

    def show(self, burned: Sequence[Burned]) -> None:
        """Show the progress of all GPUs."""
        if not self._shown:
            return
        self._write("  ".join(f"GPU {card.gpu.label}: {self._part(card)}" for card in burned))
        self._written = True

    def clear(self) -> None:
        """Erase the line."""
        if self._written:
            self._write("")

    @staticmethod
    def _write(text: str) -> None:
        from fallow.interfaces.render.table import progress_line

        line = progress_line(text, sys.stderr)
        if line is not None:
            print(line, end="", file=sys.stderr, flush=True)

    @staticmethod
    def _part(card: Burned) -> str:
        if card.failed is not None:
            return "failed"
        if not card.tally.held_bytes:
            return "starting"
        facts = [bytes_for_people(card.tally.held_bytes), _rate(card), _power(card), _heat(card)]
        wrong = f" {card.tally.wrong_words} errors" if card.tally.wrong_words else ""
        return " ".join(fact for fact in facts if fact not in "-?") + wrong
