"""Run a command on another host over ssh, in the foreground: stdin, output, signals and exit code pass through."""

import os
from collections.abc import Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.foreground_job import Supervision
from fallow.core.errors import CommandNotFound, NotEnoughGpus, PartMissing
from fallow.core.process import Ended
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.remote.refusal_word import Copier, WordFilter, new_word
from fallow.engine.remote.ssh import Ssh

_FOR_EVER_S = 1e6
_SSH_FAILED = 255
_LONGEST_LINE = 200
_OUTPUT, _ERRORS = 1, 2


@value
class Launched:
    """What came of a launch on another host."""

    ended: Ended
    refused: bool
    """True only if the host has said so: then nothing was run there."""
    connection_failed: bool
    """Whether ssh may have failed: the command may run there, may have ended, or was never started."""
    last_line: str = ""
    """The last line that ssh or the command has written to stderr; empty with a terminal, or if there was none."""


def launch_on(world: World, ssh: Ssh, host: str, words: Sequence[str], command: Sequence[str]) -> Launched:
    """Run `fallow run` with these words there, to its end. With a terminal at both ends there is one there too."""
    terminal = os.isatty(0) and os.isatty(1)
    word = new_word()
    line = ssh.command(host, ["run", "--over-ssh", word, *words, "--", *command], terminal=terminal)
    try:
        path = spawn.find(line, world.environ)
    except CommandNotFound:
        raise PartMissing(
            f"--on needs {ssh.words[0]}, which is not installed", "install openssh-client, or set FALLOW_SSH"
        ) from None
    said = WordFilter(word)
    ours, its = os.pipe()
    target = _OUTPUT if terminal else _ERRORS  # a terminal there has one stream for both
    try:
        started = Supervision(
            path,
            line,
            world.environ,
            table=world.proc,
            monotonic_s=world.clock.monotonic_s,
            streams={target: its},
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(its)
    copier = Copier(ours, target, said)
    copier.start()  # after the signals were blocked: its thread gets none
    try:
        while (ended := started.wait_for_job(_FOR_EVER_S)) is None:
            pass
    finally:
        started.close()
        copier.finish()
    if started.received is not None and ended.exit_code == _SSH_FAILED:
        return Launched(Ended(by_signal=started.received), refused=False, connection_failed=False)
    last_line = "" if terminal else shortened(copier.last_line(), _LONGEST_LINE)
    refused = said.seen and ended.exit_code == NotEnoughGpus.exit_code
    return Launched(ended, refused, connection_failed=ended.exit_code == _SSH_FAILED, last_line=last_line)
