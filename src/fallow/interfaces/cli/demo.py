"""`fallow demo`: show what fallow does on simulated GPUs, with real processes, in the terminal and on a page."""

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from fallow.actuators.process import spawn
from fallow.actuators.process.signals import Handle
from fallow.core.activity import Activity
from fallow.core.errors import FallowError
from fallow.core.process import Process
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser
from fallow.interfaces.render.stream import shows_colour
from fallow.interfaces.signals import Interruption, interruptible, uninterrupted
from fallow.interfaces.stderr import Stderr
from fallow.readers.accounts import user_name

ABOUT = """\
Show what fallow does, on four simulated GPUs with real processes, in under a
minute: in this terminal, and on a web page whose address is printed first. On a
terminal the page stays at the end until a key is pressed; elsewhere it ends by
itself. It changes nothing of yours and leaves nothing running."""
EXAMPLES = """\
  fallow demo
  fallow demo --for 10m     # ends by itself, after 10 minutes"""
_MACHINE = "4xH100"
_BURNER = (*spawn.OURSELVES, "burn", "--load", "warm")
_CONFIG = f"""\
[machine]
every = "1s"
price = 2.5
currency = "USD"

[terminals]
users = "ignore"

[[filler]]
name = "background"
user = {json.dumps(user_name(os.geteuid()))}
command = {json.dumps(_BURNER)}
gpus = "3"
idle_for = "4s"
log = "/dev/null"
"""
_PROGRAMS = {"train.py": "while True:\n    pass\n", "forgotten.py": "import signal\nsignal.pause()\n"}
_PAUSE_S = 3.0  # time to read
_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.2
_SWEEPS = 20
_LONGEST_FOLDER = 90  # a socket's path has at most 107 bytes


def add_options(_: Parser) -> None:
    """Add nothing: `fallow demo` has only the options of every command."""


def run(_args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run the demonstration."""
    with interruptible() as interruption:
        folder = _folder()
        stage = None
        try:
            stage = _Stage(folder, voice, interruption)
            _tell(stage)
            if _somebody_watches(world.environ):
                _print_heading(f"{stage.page_stays} Press a key to end it.")
                _wait_for_key()
        finally:
            uninterrupted()
            if stage is not None:
                stage.clear()
            for _ in range(_SWEEPS):  # a process that was just ended may still write its last line
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.exists(folder):
                    break
                world.clock.sleep(_LOOK_AGAIN_S)
    _print_heading("That was it. Nothing is left running.")
    return 0


def _somebody_watches(environ: Mapping[str, str]) -> bool:
    """Return whether a person sits in front of it, who can press a key: never in a pipe, CI or the background."""
    if environ.get("CI") or not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return False
    with suppress(OSError):
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def _wait_for_key() -> None:
    """Wait until a key is pressed, or the terminal is gone. What was typed before does not count."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    with suppress(termios.error, OSError):
        before = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal, termios.TCSAFLUSH)
            os.read(terminal, 1)
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def _folder() -> str:
    """Return a new folder whose path is short enough for a socket in it."""
    folder = tempfile.mkdtemp(prefix="fallow-demo-")
    if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="fallow-demo-", dir="/tmp")


class _Stage:
    """A simulated machine with claims, state and a socket of its own."""

    def __init__(self, folder: str, voice: Stderr, interruption: Interruption) -> None:
        self._voice = voice
        self._interruption = interruption
        self._chapters = 0
        self._page = ""
        self._handles: list[Handle] = []
        # An empty one names no folder to Python. Made absolute it would be this one, which may be anybody's.
        named = os.environ.get("PYTHONPATH")
        modules = named and os.pathsep.join(map(os.path.abspath, named.split(os.pathsep)))
        os.chdir(folder)
        self._address = _free_address()
        for name, text in {"fallow.toml": f'{_CONFIG}\n[page]\nlisten = "{self._address}"\n', **_PROGRAMS}.items():
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
        os.mkdir("bin")
        os.symlink(sys.executable, "bin/python3")
        # Who knows this path can be on our GPUs, if we are root and see it. All users see the names of folders in
        # /tmp, and of sockets.
        unknown_to_others = tempfile.mkdtemp(dir=folder)
        own = {
            "FALLOW_SIMULATE": _MACHINE,
            "FALLOW_CLAIM_DIR": f"{unknown_to_others}/claims",
            "FALLOW_STATE_DIR": f"{folder}/state",
            "FALLOW_SOCKET": f"{folder}/fallow.sock",
            "PATH": f"{folder}/bin:{os.environ.get('PATH', os.defpath)}",
            **({"PYTHONPATH": modules} if modules else {}),
        }
        without = ("CUDA_VISIBLE_DEVICES", "FALLOW_CONFIG", "FALLOW_CLAIM")
        self.environ = {name: text for name, text in os.environ.items() if name not in without} | own
        self.world = World(self.environ)

    def say(self, sentence: str) -> None:
        """Leave time to read, and print the next heading of the demonstration."""
        if self._chapters:
            self.world.clock.sleep(_PAUSE_S)
        self._chapters += 1
        _print_heading(sentence)

    @property
    def page_stays(self) -> str:
        """Return the sentence that says how long the page is there."""
        return f"The page at {self._page} stays until then." if self._page else "That was the story."

    def tell_page(self) -> None:
        """Say where the page of the daemon is once it is there."""
        host, _, port = self._address.partition(":")
        until_s = self.world.clock.monotonic_s() + _PATIENCE_S
        while self.world.clock.monotonic_s() < until_s:
            with suppress(OSError), socket.create_connection((host, int(port))):
                self._page = f"http://{self._address}/"
                _print_heading(f"Open the page beside this: {self._page}")
                return
            self.world.clock.sleep(_LOOK_AGAIN_S)

    def show(self, *words: str) -> None:
        """Run a fallow command as a person would, and print its output and exit code."""
        print(f"$ fallow {shlex.join(words)}", flush=True)
        pid = self._start(words)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._handles.pop().close()
        if code:
            print(f"(exit code {code})", flush=True)

    def start(self, *words: str) -> None:
        """Start a fallow command that runs until the demonstration ends."""
        print(f"$ fallow {shlex.join(words)} &", flush=True)
        self._start(words)

    def wait_until(self, activities: Callable[[dict[str, Activity]], bool]) -> None:
        """Wait until the daemon reports these activities of the GPUs."""
        until_s = self.world.clock.monotonic_s() + _PATIENCE_S
        while not activities(self._seen()):
            if self.world.clock.monotonic_s() > until_s:
                raise FallowError("the story does not go on as it should; is this machine very busy?")
            self.world.clock.sleep(_LOOK_AGAIN_S)

    def _seen(self) -> dict[str, Activity]:
        status = self.world.daemon(self._voice.detail).status()
        return {} if status is None else {gpu.label: gpu.activity for gpu in status.gpus}

    def clear(self) -> None:
        """End everything that was started, the last first."""
        for handle in reversed(self._handles):
            handle.send(signal.SIGTERM)
            if not handle.wait(_PATIENCE_S):
                handle.send(signal.SIGKILL)
                handle.wait(_PATIENCE_S)
            handle.close()
        self.world.close()

    def _start(self, words: Sequence[str]) -> int:
        """Start this fallow, not another one on the PATH."""
        command = [*spawn.OURSELVES, *words]
        with self._interruption.postponed():  # else nobody would end what was just started
            pid = spawn.start(command[0], command, self.environ)
            stat = self.world.proc.stat(pid)  # a child that has ended stays visible until it is waited for
            handle = None if stat is None else Handle.open(self.world.proc, Process(pid, stat.birth), ())
            if handle is None:
                raise FallowError("a process that was just started cannot be seen; is /proc there?")
            self._handles.append(handle)
        return pid


def _free_address() -> str:
    """Return an address of this machine at which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
        return f"{host}:{port}"


def _print_heading(sentence: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if shows_colour(sys.stdout, os.environ) else ("", "")
    print(f"\n{bold}# {sentence}{plain}", flush=True)


def _tell(stage: _Stage) -> None:
    stage.say("Four simulated GPUs. One daemon watches them, and lets background work in where nobody is.")
    stage.start("up", "--config", "fallow.toml")
    stage.tell_page()
    stage.wait_until(lambda seen: seen.get("3") is Activity.FILLED)
    stage.show("status")
    stage.say("One job works. Another has forgotten to end: it holds its GPU and does nothing.")
    stage.start("run", "--gpus", "0", "--", "python3", "train.py")
    patience = ("--idle-timeout", "26s", "--warmup", "2s")
    stage.start("run", "--gpus", "1", *patience, "--", "python3", "forgotten.py")
    stage.wait_until(lambda seen: seen.get("0") is Activity.BUSY and seen.get("1") is Activity.IDLE)
    stage.show("status")
    stage.say("A free GPU for a script. And the one with background work, which is gone before a job begins there.")
    stage.show("pick")
    stage.show("run", "--gpus", "3", "--", "echo", "on GPU 3, alone")
    stage.say("Wait in line for the forgotten job's GPU. It is warned and stopped, and the line moves.")
    stage.show("run", "--gpus", "1", "--wait", "60s", "--", "echo", "my turn")
    stage.say("Why was it stopped?")
    stage.show("why", "1")
    stage.say("Who wasted what, and what did it cost?")
    stage.show("report", "--since", "1h", "--by", "job")
