"""Runs fallow as another user, started by root: `python -m tests.as_user UID WORDS…`; without words, what stdin asks.

`UID:GID` gives them one more group than that of their own number.

Where Python's library is where others cannot read, as below /root, it is read through links to its files, in `build`.
Where the package itself does, everything is loaded before root is given up. Nothing is imported before that is known.
"""

import os
import sys
from collections.abc import Callable

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOME = "PYTHONHOME"


def others_can_read(place: str) -> bool:
    """Whether any user may enter this folder and all above it."""
    above = os.path.dirname(place)
    return os.stat(place).st_mode & 0o005 == 0o005 and (place == above or others_can_read(above))


def begin_again_where_others_can_read() -> None:
    """Become the same program, with Python's library where others can read it."""
    home = os.path.join(REPOSITORY, "build", "python-{}.{}.{}".format(*sys.version_info))
    if not os.path.exists(home):
        link_library(home)
    os.execve(sys.executable, sys.orig_argv, {**os.environ, HOME: home})


def link_library(home: str) -> None:
    """Make second names for the files of Python's library, or copies of them on another file system."""
    import shutil
    import sysconfig
    import tempfile

    def link_or_copy(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    library = sysconfig.get_path("stdlib")
    os.makedirs(os.path.dirname(home), exist_ok=True)
    half = tempfile.mkdtemp(dir=os.path.dirname(home))
    made = os.path.join(half, os.path.relpath(library, sys.base_prefix))
    left_out = shutil.ignore_patterns("site-packages", "test", "idlelib", "config-*")
    shutil.copytree(library, made, ignore=left_out, copy_function=link_or_copy)
    os.chmod(half, 0o755)
    try:
        os.rename(half, home)
    except OSError:  # another process was faster
        shutil.rmtree(half)


def load_everything(*, with_page: bool) -> None:
    """What could be needed, while it can be read. The page, half of it all, is only for who serves it."""
    import importlib.metadata
    import importlib.readers
    import json  # noqa: F401
    import pkgutil

    import inotify_simple  # noqa: F401

    import fallow

    of_page = ("fallow.interfaces.web", "fallow.interfaces.socket.access", "fallow.interfaces.socket.server")
    for module in pkgutil.walk_packages(fallow.__path__, "fallow."):
        if module.name != "fallow.__main__" and (with_page or not module.name.startswith(of_page)):
            importlib.import_module(module.name)  # __main__ would be fallow at once
    importlib.metadata.requires("fallow")


def serve(run: Callable[[list[str]], int]) -> None:
    """Run each JSON list of words on stdin; answer with the exit code and what was printed, as JSON."""
    import contextlib
    import io
    import json

    answers = sys.stdout
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(json.loads(line))
        print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)


def main() -> None:
    """Become the user, then be fallow."""
    if not (others_can_read(REPOSITORY) and others_can_read(sys.prefix)):
        load_everything(with_page="up" in sys.argv[2:3])
    elif not others_can_read(sys.base_prefix):
        begin_again_where_others_can_read()
    os.environ.pop(HOME, None)
    from fallow.interfaces.cli.main import main as run
    from tests.ports import with_a_free_port

    uid, *groups = map(int, sys.argv[1].split(":"))
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.chdir("/")
    if not sys.argv[2:]:
        serve(run)
        return
    sys.exit(run(with_a_free_port(*sys.argv[2:])))


if __name__ == "__main__":
    main()
