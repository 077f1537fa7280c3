"""`fallow run --on`: run a command on the most suitable of several hosts; the claim is made on that host."""

import argparse
import shlex
from collections.abc import Sequence

from fallow.actuators.process.foreground_job import end_as
from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.engine.machine.world import World
from fallow.engine.remote.launch import Launched, launch_on
from fallow.engine.remote.ssh import Ssh
from fallow.interfaces.cli.find_host import HostFinder
from fallow.interfaces.cli.on import choice_words, reached
from fallow.interfaces.stderr import Stderr

_ON = "--on"
_WAIT = "--wait"
_NOT_STARTED = (126, 127)
"""What a shell ends with if it cannot start a program; the fallow there then says why itself."""


def run_on(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Launch on one host after the other until one takes it; end as the command ended there."""
    command: list[str] = args.command
    if not command:
        raise WrongUsage("no command given; write: fallow run --on HOSTS [OPTIONS] -- CMD ...")
    hosts, ssh = reached(args, world)
    words = words_for_there(args.words, keep_wait=len(hosts) == 1)
    if len(hosts) == 1:
        launched = launch_on(world, ssh, hosts[0], words, command)
        if launched.refused:
            raise NotEnoughGpus(f"{hosts[0]} has not enough GPUs now; see: fallow status --on {hosts[0]}")
        return _end(hosts[0], launched, ssh, voice)
    finder = HostFinder(world, ssh, hosts, choice_words(args), args.wait, voice)
    for host, offer in finder.candidates():
        if voice.on_a_terminal or args.dry_run:
            voice.note(f"on {host}, which has GPU {', '.join(offer.indices)}")
        launched = launch_on(world, ssh, host, words, command)
        if not launched.refused:
            return _end(host, launched, ssh, voice)
        finder.was_slower(host)
    raise finder.nothing_found()


def words_for_there(words: Sequence[str], *, keep_wait: bool) -> list[str]:
    """Return the options as they were written, without those about hosts; --wait only where one host waits itself."""
    kept: list[str] = []
    at = 0
    while at < len(words):
        name, given, _ = words[at].partition("=")
        takes_next = not given and at + 1 < len(words)
        if name == _ON:
            at += 1 if given else 2
        elif name == _WAIT and not keep_wait:
            at += 2 if takes_next and not words[at + 1].startswith("-") else 1
        else:
            kept.append(words[at])
            at += 1
    return kept


def _end(host: str, launched: Launched, ssh: Ssh, voice: Stderr) -> int:
    if launched.connection_failed:
        last = launched.last_line and f"; the last message was: {launched.last_line}"
        voice.note(f"{host}: ssh, or the command, ended with exit code 255{last}")
        voice.note(f"if ssh did not connect, nothing was run; try: {shlex.join([*ssh.words, host, 'true'])}")
        voice.note(f"if the connection broke, the command is asked to end there; see: fallow status --on {host}")
    elif launched.ended.exit_code in _NOT_STARTED and not launched.last_line.startswith("fallow: "):
        code = launched.ended.exit_code
        voice.note(
            f"{host}: the command ended with exit code {code}, or {ssh.fallow} cannot be run there; install fallow"
            " there, or name it in FALLOW_REMOTE"
        )
    end_as(launched.ended)
