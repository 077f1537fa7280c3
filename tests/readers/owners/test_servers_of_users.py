"""What a user writes about their notebook server makes root open nothing for them, and tells others nothing."""

import functools
import json
import os
import pathlib
import pwd
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.actuators.host.as_user import in_the_name_of
from fallow.actuators.owners.stop import stop_kernel
from fallow.core.http import Endpoint
from fallow.core.owner import Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import contact
from fallow.readers.http import LocalHttp
from fallow.readers.owners import jupyter
from fallow.readers.owners.containers import endpoints
from fallow.readers.owners.traces import trace
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.real_owners import eventually

KERNEL = "14489c42-a288-4893-b758-511312669828"
SECRET = "the-secret-of-ada"


class Notebook:
    """A kernel of the user nobody below a process that says it is its server, wherever its file says."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.user = pwd.getpwnam("nobody")
        self.folder = folder
        self._file = file = folder / f"kernel-{KERNEL}.json"
        self.server = subprocess.Popen(
            ["sh", "-c", f"sh -c 'read x; true' sh -f {file}; true"],
            stdin=subprocess.PIPE,
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
        )
        self.kernel = int(eventually(self._kernel, "the kernel"))

    def _kernel(self) -> int | None:
        pid = self.server.pid
        below = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        words = {each: pathlib.Path(f"/proc/{each}/cmdline").read_text().split("\0") for each in below}
        # Until it has called exec, it has the words of the server.
        named = [each for each in below if str(self._file) in words[each]]
        return int(named[0]) if named else None

    def say(self, **facts: object) -> None:
        """Write the server's own file, as its user."""
        file = self.folder / f"jpserver-{self.server.pid}.json"
        file.write_text(json.dumps({"port": 0, "base_url": "/", "token": "", **facts}))
        os.chown(file, self.user.pw_uid, self.user.pw_gid)

    def end(self) -> None:
        self.server.communicate(b"\n", timeout=LIMIT_S)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A folder that everybody may look into."""
    with tempfile.TemporaryDirectory(prefix="notebook-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.fixture
def notebook(folder: pathlib.Path) -> Iterator[Notebook]:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    made = Notebook(folder)
    yield made
    made.end()


def listening(path: pathlib.Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    server.setblocking(False)
    return server


def asked(world: World, pid: int) -> str:
    owner = trace(world.proc, pid)
    assert isinstance(owner, Owner)
    assert owner.kind is OwnerKind.NOTEBOOK
    found = contact(world, owner, pid)
    assert isinstance(found, Unknown)
    return found.why


def test_root_connects_to_no_socket_that_is_not_the_users_and_tells_nothing_about_it(
    notebook: Notebook, folder: pathlib.Path, fallow: Fallow
) -> None:
    world, hidden = World(fallow.environ), folder / "hidden"
    hidden.mkdir(mode=0o700)
    (folder / "link.sock").symlink_to(hidden / "root.sock")
    open_to_all = listening(folder / "open.sock")
    (folder / "open.sock").chmod(0o777)
    said = set()
    with listening(hidden / "root.sock") as in_hidden, open_to_all:
        for path in ("hidden/root.sock", "hidden/nothing.sock", "nothing.sock", "link.sock", "open.sock"):
            notebook.say(sock=str(folder / path))
            said.add(asked(world, notebook.kernel))
        for server in (in_hidden, open_to_all):
            with pytest.raises(BlockingIOError):
                server.accept()
    assert said == {f"the server of user {notebook.user.pw_uid} cannot be asked"}


def test_a_socket_of_the_user_is_connected_to_and_must_be_served_by_them(
    notebook: Notebook, folder: pathlib.Path, fallow: Fallow
) -> None:
    with listening(folder / "own.sock") as server:
        os.chown(folder / "own.sock", notebook.user.pw_uid, notebook.user.pw_gid)
        notebook.say(sock=str(folder / "own.sock"))
        why = asked(World(fallow.environ), notebook.kernel)
        assert why == f"the server of user {notebook.user.pw_uid} belongs to user 0"
        server.accept()[0].close()


@pytest.mark.as_root
def test_a_folder_of_a_user_that_is_a_link_tells_nothing_of_what_is_where_they_may_not_look(
    open_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Root looked through the link: whether its engine could not be asked, or was not there, told of any folder."""
    user, secret = pwd.getpwnam("games"), tmp_path / "of root alone"
    secret.mkdir(mode=0o700)
    own = open_folder / str(user.pw_uid)
    own.mkdir()
    (own / "podman").symlink_to(secret)
    (own / "docker.sock").touch()

    def found() -> list[str]:
        rights = functools.partial(in_the_name_of, gid=user.pw_gid)
        sockets = endpoints(frozenset((user.pw_uid,)), "", rights, str(open_folder))
        return [each.path for each in sockets if each.named_by is not None]

    assert found() == [str(own / "docker.sock")]
    (secret / "podman.sock").touch()
    assert found() == [str(own / "docker.sock")]


Answer = Callable[[bytes], Endpoint]


@pytest.fixture
def answering() -> Iterator[Answer]:
    """A server of ours that answers this to one question."""
    made: list[socket.socket] = []

    def start(said: bytes) -> Endpoint:
        listener = socket.create_server(("127.0.0.1", 0))
        made.append(listener)

        def run() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said)

        threading.Thread(target=run, daemon=True).start()
        me = os.geteuid()
        return Endpoint(port=int(listener.getsockname()[1]), users=frozenset((me,)), named_by=me)

    yield start
    for listener in made:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize(
    "said",
    [
        f"HTTP/1.1 500 {SECRET}\r\n\r\n{SECRET}".encode(),
        f"{SECRET}\r\n\r\n".encode(),
        f"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{SECRET}".encode(),
        f'HTTP/1.1 200 OK\r\n\r\n[{{"id": "{KERNEL}", "execution_state": "{SECRET}", "path": "/home"}}]'.encode(),
    ],
)
def test_nothing_that_a_users_server_answers_is_shown_to_others(answering: Answer, said: bytes) -> None:
    http = LocalHttp(SystemClock())
    server = jupyter.JupyterServer(answering(said), "/", "", "/home/ada")
    found = jupyter.listed(http, server, "kernels", 30.0)
    shown = found.why if isinstance(found, Unknown) else str(found[KERNEL].busy)
    assert SECRET not in shown
    assert "/home" not in shown
    assert SECRET not in stop_kernel(http, answering(said), "/", {}, KERNEL).words


STAT = "{pid} (sh) S {parent} 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 {birth} 1000 25 18446744073709551615"


class PidsAreUsedAgain(Proc):
    """A machine on which the server ends while its environment is read, and another process gets its pid."""

    def variables(self, pid: int, *names: str) -> dict[str, str] | None:
        found = super().variables(pid, *names)
        file = pathlib.Path(self.root, str(pid), "stat")
        file.write_text(STAT.format(pid=pid, parent=1, birth=888))
        return found


@pytest.fixture
def served(tmp_path: pathlib.Path) -> pathlib.Path:
    """A /proc with a kernel, 42, below its server, 41; the server's own file lies in it."""
    uid = os.geteuid()
    words = {41: "jupyterhub-singleuser", 42: f"python\0-f\0{tmp_path}/kernel-{KERNEL}.json"}
    for pid, parent in ((41, 1), (42, 41)):
        place = tmp_path / str(pid)
        place.mkdir()
        (place / "stat").write_text(STAT.format(pid=pid, parent=parent, birth=777))
        (place / "status").write_text(f"Name:\tsh\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (place / "cmdline").write_text(words[pid])
        (place / "environ").write_text(f"JUPYTERHUB_API_TOKEN={SECRET}\0")
    (tmp_path / "jpserver-41.json").write_text(SERVER_FILE)
    return tmp_path


SERVER_FILE = '{"port": 8888, "base_url": "/", "token": ""}'


def test_the_token_of_a_process_that_is_not_the_server_any_more_is_not_used(served: pathlib.Path) -> None:
    same = jupyter.find_server(Proc(str(served)), 42)
    assert isinstance(same, jupyter.JupyterServer)
    assert same.token == SECRET
    found = jupyter.find_server(PidsAreUsedAgain(str(served)), 42)
    assert found == Unknown("the Jupyter server has ended")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", "[" * 60_000, '{"port": "x"}'),
        SERVER_FILE.replace("8888", "99999999"),
        SERVER_FILE.replace("8888", "Infinity"),
        SERVER_FILE.replace('"/"', '"x y"'),
    ],
    ids=lambda text: text[:30],
)
def test_a_server_file_with_nonsense_makes_no_server(served: pathlib.Path, text: str) -> None:
    (served / "jpserver-41.json").write_text(text)
    assert isinstance(jupyter.find_server(Proc(str(served)), 42), Unknown)


def test_a_pipe_in_place_of_the_server_file_keeps_nobody_waiting(served: pathlib.Path) -> None:
    (served / "jpserver-41.json").unlink()
    os.mkfifo(served / "jpserver-41.json")
    found = jupyter.find_server(Proc(str(served)), 42)
    assert found == Unknown("the file of the Jupyter server is not its user's")
