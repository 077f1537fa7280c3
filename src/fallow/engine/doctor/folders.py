"""Check the folders: whether they can be used, who owns them, and whether their files are intact."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote

from fallow.actuators.claims.folder import ClaimFolder, folder_path, to_give_it_to_root
from fallow.actuators.files.own_folder import NAME_ANOTHER_STATE, own_folder
from fallow.core.errors import ConfigWrong, FallowError
from fallow.core.missing import remedy
from fallow.core.units import printable
from fallow.engine.client.unix_http import NoAnswer
from fallow.engine.doctor.finding import CheckFinding, broken, lacking, ok
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name

_OPEN_TO_ALL = 0o1777


def claims(world: World) -> Iterator[CheckFinding]:
    """Check the folder that all users share."""
    path = folder_path(world.environ)
    shared = f"{quote(path)} (only processes with this FALLOW_CLAIM_DIR see these claims)"
    what = shared if world.environ.get("FALLOW_CLAIM_DIR") else path
    if not os.path.lexists(path):
        yield _to_be_made("claims", what, path, f"as root: mkdir -p -m 1777 {quote(path)}")
        return
    try:
        folder = ClaimFolder(path)
    except FallowError as error:
        instead = "look what is there, or set FALLOW_CLAIM_DIR to another folder"
        yield broken("claims", f"{error}: nothing can be claimed or protected", instead)
        return
    found = os.stat(path)
    mode, owner = stat.S_IMODE(found.st_mode), user_name(found.st_uid)
    names = folder.names()
    folder.close()
    if mode & _OPEN_TO_ALL != _OPEN_TO_ALL:
        means = f"{what} has mode {mode:04o}: some users cannot claim GPUs, or can delete the claims of others"
        yield broken("claims", means, f"as its owner or root: chmod 1777 {quote(path)}")
    elif found.st_uid != 0:
        means = f"{what} is {owner}'s, who could delete the claims and protections of others"
        yield lacking("claims", means, to_give_it_to_root(path))
    else:
        protections = sum(name.startswith("protection-") for name in names)
        yield ok("claims", f"{what} works for all users; {protections} protection{'' if protections == 1 else 's'}")


def state(world: World) -> Iterator[CheckFinding]:
    """Check the folder of the journal and the history."""
    try:
        path = world.state_folder
    except FallowError as error:
        yield broken("state", f"{error}: no journal and no history are kept", "set FALLOW_STATE_DIR")
        return
    if not os.path.lexists(path):
        yield _to_be_made("state", quote(path), path, NAME_ANOTHER_STATE)
        return
    try:
        own_folder(path, make=False)
    except FallowError as error:
        yield broken("state", f"{error.sentence}: no journal and no history are kept", error.way)
        return
    if os.access(path, os.W_OK | os.X_OK):
        yield ok("state", f"{quote(path)} can be written")
    else:
        means = f"{quote(path)} cannot be written: no journal and no history are kept"
        yield broken("state", means, NAME_ANOTHER_STATE)


def journal(world: World) -> Iterator[CheckFinding]:
    """Check the journal."""
    from fallow.engine.history.journal_file import FILE_NAME

    yield _database("journal", os.path.join(world.state_folder, FILE_NAME), "nothing is recorded yet")


def history(world: World) -> Iterator[CheckFinding]:
    """Check the history that `fallow report` adds up."""
    from fallow.engine.history.reader import open_history
    from fallow.engine.history.store import FILE_NAME

    path = os.path.join(world.state_folder, FILE_NAME)
    found = _database("history", path, "`fallow up` has recorded nothing yet")
    if found.health == "ok" and os.path.exists(path):
        try:
            past = open_history(world.state_folder)
        except FallowError as error:
            yield broken("history", str(error))
            return
        if past is not None:
            past.close()
    yield found


def configuration(world: World) -> Iterator[CheckFinding]:
    """Check the config that `fallow up` would read."""
    from fallow.engine.config.location import find

    path = find(world.environ)
    running = _config_of_the_daemon(world)
    other = "" if running in (None, path) else f"; the daemon that runs has {printable(str(running))}"
    if path is None:
        begin = "for an example: fallow check --example"
        only_watches = f"so `fallow up` only watches ({begin})"
        yield ok(
            "config", f"none is where fallow looks by itself{other}" if other else f"there is none, {only_watches}"
        )
        return
    try:
        from fallow.engine.config.feasible import Feasible
        from fallow.engine.config.load import load

        load(path, Feasible(world, lambda _: None), lambda _: None)
    except ModuleNotFoundError as error:
        yield lacking("config", f"configs cannot be read without {error.name}", remedy(error.name or ""))
    except ConfigWrong as error:
        first = error.mistakes[0].in_file(error.file)
        yield broken("config", f"{error}: {first}: `fallow up` does not start with it", f"fallow check {quote(path)}")
    except FallowError as error:
        yield broken("config", f"{error}: `fallow up` does not start with it", f"fallow check {quote(path)}")
    else:
        yield ok("config", f"{quote(path)} has no mistakes{other}")


def _config_of_the_daemon(world: World) -> str | None:
    """Return the config that the daemon of these GPUs runs with; None without one, or if it does not say."""
    with suppress(NoAnswer):
        said = world.daemon(lambda _: None).hello() or {}
        if said.get("simulated") == world.simulated and said.get("config") is not None:
            return str(said["config"])
    return None


def _to_be_made(part: str, what: str, path: str, otherwise: str) -> CheckFinding:
    parent = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if os.access(parent, os.W_OK | os.X_OK):
        return ok(part, f"{what} does not exist yet; it is made when it is first needed")
    return broken(part, f"{what} does not exist, and {quote(parent)} cannot be written to make it", otherwise)


def _database(part: str, path: str, empty: str) -> CheckFinding:
    """Check a database."""
    import sqlite3

    from fallow.engine.history.sqlite_file import open_read_only

    try:
        os.stat(path)
    except FileNotFoundError:
        return ok(part, f"{empty} ({quote(path)})")
    except OSError as error:
        return broken(part, f"{quote(path)}: {error.strerror}", f"ls -l {quote(path)}")
    if not os.access(path, os.R_OK):
        return broken(part, f"{quote(path)} cannot be read", f"ls -l {quote(path)}")
    try:
        database = open_read_only(path)
        try:
            answer = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
        finally:
            database.close()
    except sqlite3.Error as error:
        answer = str(error)
    if answer != "ok":
        return broken(
            part,
            f"{quote(path)} is damaged: {answer}",
            f"move it away, and a new one is made: mv {quote(path)} {quote(f'{path}.damaged')}",
        )
    return ok(part, f"{quote(path)} is intact")
