"""`fallow up`: run the daemon, with everything that one config file describes."""

import argparse
import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fallow.actuators.host.resource_limits import raise_own_limits, share_one_heap
from fallow.actuators.host.single_instance import Instance
from fallow.actuators.process.signals import die_of
from fallow.core.errors import FallowError, NoDriver, PartMissing, WrongUsage
from fallow.engine.client.socket_path import own_socket
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.machine.signal_pipe import SignalPipe
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, takes
from fallow.interfaces.signals import unstoppable
from fallow.interfaces.stderr import Stderr

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from fallow.core.mistake import Mistake
    from fallow.engine.config.model import Config
    from fallow.engine.daemon.loop import Daemon
    from fallow.interfaces.server_thread import ServerThread
    from fallow.interfaces.web.server import HttpServer

ABOUT = """\
Watch all GPUs and do what a config says: fill idle GPUs, find processes that
hold them unused, guard the machine. Without a config it only watches, and shows
a web page. --reload or SIGHUP makes the daemon read its config again; if it has
mistakes, each is printed with its line, and the old one stays in force.

exit codes of --reload: 0 loaded, 78 the config has mistakes, 77 the daemon is
another user's, 69 no daemon runs"""
EXAMPLES = """\
  fallow up
  fallow up --config /etc/fallow/fallow.toml
  fallow up --simulate --dry-run
  fallow check && fallow up --reload"""
_SWITCH_S = 0.0001  # a thread that serves requests must not delay a yield


def add_options(made: Parser) -> None:
    """Add the options of `fallow up`."""
    add = partial(takes, made)
    add("--config FILE", str, "read this config (default: the one that `fallow check` finds)")
    add("--listen ADDR", str, "serve the web page there, whatever the config says")
    made.add_argument("--dry-run", action="store_true", help="carry out no action, only print what it would be")
    made.add_argument("--reload", action="store_true", help="make the daemon that runs read its config again")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run the daemon until it is interrupted, or make the one that runs reload."""
    if args.reload:
        if args.config or args.listen or args.dry_run:
            raise WrongUsage("--reload takes no other option", "the daemon reads the config that it has")
        from fallow.interfaces.cli.reload import reload

        return reload(world, voice)
    gc.disable()  # until all is loaded
    from fallow.engine.config.location import MACHINE, find, may_be_there

    file = find(world.environ, args.config)
    file = None if file is None else _from_the_top(file)
    load = _loader(args, world, voice)
    has_cluster = load(file).cluster.is_watched  # a mistake is reported before anything is opened
    if file is None and may_be_there(MACHINE):
        voice.note(
            f"{MACHINE} is for the daemon of root, and is not used; to use a config of your own:"
            " fallow up --config FILE"
        )
    socket = own_socket(world.environ)
    folder = world.state_folder if socket is None else os.path.dirname(os.path.abspath(socket))
    lock = Instance(folder, _in_words(world, file))
    if has_cluster:
        world.go_on_without_driver(partial(_watch_cluster_alone, voice))
    if socket is None:
        voice.note(
            "XDG_RUNTIME_DIR is not set, so there is no socket: status, why and idle cannot ask this daemon;"
            " to let them, set FALLOW_SOCKET to a path in a folder of yours, here and there"
        )
    try:
        number = _be_up(args, world, voice, load, file, lock, socket)
    finally:
        world.close()
        lock.close()
    voice.note(f"ended by {signal.Signals(number).name}")
    voice.finish()
    die_of(number)
    return 128 + number  # if the signal cannot end us, as for pid 1 of a container


def _in_words(world: World, file: str | None) -> str:
    """Return `pid 4711 of root, with /etc/fallow/fallow.toml`, which another daemon prints and ends."""
    return f"pid {os.getpid()} of {world.user}, " + ("without a config" if file is None else f"with {file}")


def _watch_cluster_alone(voice: Stderr, error: NoDriver) -> None:
    voice.note(f"{error.sentence}: this machine has no GPUs of its own, and only the cluster is watched")


def _be_up(
    args: argparse.Namespace,
    world: World,
    voice: Stderr,
    load: "Callable[[str | None], Config]",
    file: str | None,
    lock: Instance,
    socket: str | None,
) -> int:
    """Run the daemon, and return the signal that ended it."""
    from fallow.engine.config.location import searched
    from fallow.engine.daemon.loop import Daemon
    from fallow.engine.doctor.root_folder import demand_root_folder

    demand_root_folder(world, voice.note)
    sys.setswitchinterval(_SWITCH_S)
    raise_own_limits()
    share_one_heap()
    voice.never_wait()
    unstoppable()
    asked = SignalPipe()
    publisher = Publisher()
    places = searched(world.environ)
    daemon = Daemon(
        world,
        load,
        publisher,
        voice.note,
        file=file,
        places=places,
        dry_run=args.dry_run,
    )
    try:
        serving = _serve(daemon, publisher, world, voice, socket)
        try:

            def reloaded(page_changed: bool) -> None:
                if serving is not None:
                    serving.renew_page(changed=page_changed)
                lock.write(_in_words(world, daemon.file))

            daemon.when_reloaded = reloaded
            what = "without a config: it only watches" if file is None else f"with {file}"
            dry_run = ", dry run: nothing is done" if args.dry_run else ""
            simulated = "" if world.simulated is None else f", on simulated GPUs ({world.simulated})"
            voice.note(f"up, {what}{simulated}{dry_run}")
            gc.freeze()  # what was loaded stays: looking for garbage in it takes 75 ms, for which a yield would wait
            gc.enable()
            return daemon.run(asked)
        finally:
            if serving is not None:
                serving.close()
    finally:
        daemon.end()


def _serve(
    daemon: "Daemon", publisher: Publisher, world: World, voice: Stderr, socket: str | None
) -> "ServerThread | None":
    """Open the socket and the page; the daemon runs on without them."""
    try:
        from fallow.engine.daemon.sources import Sources
        from fallow.engine.stop.for_person import StopsForPersons
        from fallow.interfaces.server_thread import ServerThread
        from fallow.interfaces.web.compose import open_page
    except ModuleNotFoundError as error:
        voice.note(str(PartMissing.of("the daemon's socket and page", error.name or "")))
        return None

    def page(app: "ASGIApp") -> "HttpServer | None":
        try:
            return open_page(app, daemon.config.page, world.clock, voice.note)
        except FallowError as error:
            voice.error(f"there is no page: {error}")
            return None

    sources = Sources(
        world,
        publisher,
        daemon.journal.last,
        daemon.past,
        lambda: daemon.config.machine,
        lambda: daemon.calls.ask(daemon.reload),
        lambda wish: daemon.calls.ask(partial(daemon.wake, wish)),
        lambda: daemon.parking.jobs,
        StopsForPersons(world, daemon.journal),
    )
    return ServerThread(socket, sources, page, voice.note)


def _loader(args: argparse.Namespace, world: World, voice: Stderr) -> "Callable[[str | None], Config]":
    """Return a function that loads the config, with the options of the command line applied."""
    from fallow.engine.config.feasible import Feasible
    from fallow.engine.config.listen_address import address
    from fallow.engine.config.load import load as load_file
    from fallow.engine.config.model import Config

    listen: str | None = args.listen
    feasible = Feasible(world, voice.note, dry_run=args.dry_run)

    def wait_for(file: str, mistake: "Mistake") -> None:
        voice.note(f"{mistake.in_file(file)}; it is waited for")

    def load(file: str | None) -> "Config":
        found = Config() if file is None else load_file(file, feasible, partial(wait_for, file))
        if listen is None:
            return found
        page = found.page.model_copy(update={"listen": address(listen)})
        if not page.has_token and not page.listen.is_loopback:
            raise WrongUsage(f"{listen} can be reached from other machines, and the config has no token_file")
        return found.model_copy(update={"page": page})

    return load


def _from_the_top(file: str) -> str:
    """Return the absolute path; the path as it is if the working folder is gone, so that reading it reports that."""
    try:
        return os.path.abspath(file)
    except FileNotFoundError:
        return file
