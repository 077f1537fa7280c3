"""Everything that ends fallow with a sentence, and the exit code that goes with it.

FallowError            125  fallow itself failed
├── CardFailed           1  a GPU failed under a load, or computed or kept something wrong
├── WrongUsage           2  the words on the command line do not fit; a ValueError too, for Python programs
├── NoDriver            69  no driver, or no GPU, and not simulated
├── PartMissing         69  a part of fallow is not installed
├── NoDaemon            69  there is no `fallow up` to be asked
├── NotEnoughGpus       75  not enough GPUs now, or the wait ran out
├── AlreadyRunning      75  there is a `fallow up` of this user already
├── NotPermitted        77  the system does not let us
├── ConfigWrong         78  the config has mistakes
├── CannotRun          126  CMD is there and cannot be run
└── CommandNotFound    127  CMD is not there
"""

import errno
from collections.abc import Mapping, Sequence
from typing import ClassVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.core.mistake import Mistake

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""What the system says when it has no more of something. It says nothing of what we asked for."""


class FallowError(Exception):
    """A failure that a person is told in one sentence."""

    exit_code: ClassVar[int] = 125


class CardFailed(FallowError):
    """A GPU failed under a load, or computed or kept something wrong."""

    exit_code = 1


class WrongUsage(FallowError, ValueError):
    """The words on the command line, or the values of a call, do not fit; `way` says how to write it."""

    exit_code = 2

    def __init__(self, sentence: str, way: str = "") -> None:
        super().__init__(f"{sentence}; {way}" if way else sentence)
        self.sentence = sentence
        self.way = way


class NoDriver(FallowError):
    """There is no driver, or no GPU, and nobody asked for simulated ones."""

    exit_code = 69


class PartMissing(FallowError):
    """A package that fallow needs for this is not installed; the sentence says how to install it."""

    exit_code = 69

    @classmethod
    def of(cls, what: str, package: str) -> "PartMissing":
        """With the way to get it for this very installation."""
        from fallow.core.missing import remedy  # noqa: PLC0415  only those who lack something pay for it

        return cls(f"{what} needs {package}, which is not installed; try: {remedy(package)}")


class NoDaemon(FallowError):
    """There is no daemon to be asked, or it does not answer."""

    exit_code = 69


class NotEnoughGpus(FallowError):
    """Fewer GPUs are available than were asked for; `refused` says why each was refused."""

    exit_code = 75

    def __init__(self, sentence: str, refused: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.refused: Mapping[str, str] = refused or {}


class AlreadyRunning(FallowError):
    """There is a daemon already; the sentence says who runs it."""

    exit_code = 75


class NotPermitted(FallowError):
    """The system does not let us."""

    exit_code = 77


class ConfigWrong(FallowError):
    """The config has mistakes: all that were found, in the order of their lines."""

    exit_code = 78

    def __init__(self, file: str, mistakes: "Sequence[Mistake]") -> None:
        super().__init__(f"{file} has {'a mistake' if len(mistakes) == 1 else f'{len(mistakes)} mistakes'}")
        self.file = file
        self.mistakes = tuple(mistakes)


class CannotRun(FallowError):
    """The command is there and cannot be run."""

    exit_code = 126


class CommandNotFound(FallowError):
    """The command is not there."""

    exit_code = 127
