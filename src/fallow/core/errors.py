"""The errors of fallow, each with its exit code.

FallowError            125  fallow itself failed
├── CardFailed           1  a GPU failed under a load, or computed or kept something wrong
├── NothingFound         1  what was named is not there
├── WrongUsage           2  the command line is wrong; a ValueError too, for Python programs
├── NoDriver            69  no driver or no GPU, and none simulated
├── PartMissing         69  a package that this needs is not installed
├── NoDaemon            69  no `fallow up` runs, or it does not answer
├── NotEnoughGpus       75  not enough GPUs now, or the wait ran out
├── AlreadyRunning      75  a `fallow up` of this user runs already
├── NotPermitted        77  the system does not permit it
├── ConfigWrong         78  the config has mistakes
└── CannotRun          126  CMD cannot be run
    └── CommandNotFound 127  CMD does not exist
"""

from collections.abc import Mapping, Sequence

from fallow.core.annotations import ClassVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.core.mistake import Mistake


class FallowError(Exception):
    """A failure that is reported in one sentence: what failed, and, as `way`, what to do."""

    exit_code: ClassVar[int] = 125

    def __init__(self, sentence: str, way: str = "") -> None:
        super().__init__(f"{sentence}; {way}" if way else sentence)
        self.sentence = sentence
        self.way = way


class CardFailed(FallowError):
    """A GPU failed under a load, computed or kept something wrong, or is not as `fallow slurm check` needs it."""

    exit_code = 1


class NothingFound(FallowError):
    """What was named makes sense, and there is nothing of that name."""

    exit_code = 1


class WrongUsage(FallowError, ValueError):
    """The command line, or a value of a call, is wrong; `way` says how to write it."""

    exit_code = 2


class NoDriver(FallowError):
    """There is no driver or no GPU, and none is simulated."""

    exit_code = 69


class PartMissing(FallowError):
    """A package that this needs is not installed; the sentence says how to install it."""

    exit_code = 69

    @classmethod
    def of(cls, what: str, package: str) -> "PartMissing":
        """Return the error, with the command that installs the package here."""
        from fallow.core.missing import remedy  # noqa: PLC0415  loaded only where something is missing

        return cls(f"{what} needs {package}, which is not installed", f"run: {remedy(package)}")


class NoDaemon(FallowError):
    """No daemon runs, or it does not answer."""

    exit_code = 69


class NotEnoughGpus(FallowError):
    """Fewer GPUs are available than were asked for; `refused` says why each was refused."""

    exit_code = 75

    def __init__(self, sentence: str, refused: Mapping[str, str] | None = None, way: str = "") -> None:
        super().__init__(sentence, way)
        self.refused: Mapping[str, str] = refused or {}


class AlreadyRunning(FallowError):
    """A daemon runs already; the sentence says whose."""

    exit_code = 75


class NotPermitted(FallowError):
    """The system does not permit an action."""

    exit_code = 77


class ConfigWrong(FallowError):
    """The config has mistakes, which are listed in the order of their lines."""

    exit_code = 78

    def __init__(self, file: str, mistakes: "Sequence[Mistake]") -> None:
        only = mistakes[0] if len(mistakes) == 1 else None
        self.is_about_the_file = only is not None and only.line is None and not only.where
        """Whether it is the file itself that is wrong, or not there; then the sentence says it all."""
        if only is not None and self.is_about_the_file:
            super().__init__(only.in_file(file))
        else:
            super().__init__(f"{file} has {'a mistake' if only else f'{len(mistakes)} mistakes'}")
        self.file = file
        self.mistakes = tuple(mistakes)


class CannotRun(FallowError):
    """The command cannot be run."""

    exit_code = 126


class CommandNotFound(CannotRun):
    """The command does not exist."""

    exit_code = 127
