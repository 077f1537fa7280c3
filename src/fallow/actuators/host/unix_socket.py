"""The file of a listening unix socket, in a folder that only its owner can change.

The daemon has the lock of that folder by then, so a socket file that is still there is no longer used.
"""

import os
import socket
import stat
from contextlib import suppress

from fallow.actuators.files.own_folder import NAME_ANOTHER_SOCKET, own_folder
from fallow.core.errors import FallowError, NotPermitted

_EVERYBODY_CONNECTS = 0o666
_LONGEST_PATH = 107


class SocketFile:
    """A socket that all users of this machine may connect to, for as long as it is open."""

    def __init__(self, path: str, backlog: int) -> None:
        self._path = path
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise FallowError(f"the path of a socket has at most {_LONGEST_PATH} bytes; {path} is longer")
        own_folder(os.path.dirname(path) or ".", NAME_ANOTHER_SOCKET, 0o755)
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise NotPermitted(f"{path} is there and no socket; fallow does not remove it")
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self.socket.bind(path)
            os.chmod(path, _EVERYBODY_CONNECTS)  # before it listens, so that nobody connects under another mode
            self.socket.listen(backlog)
        except OSError as error:
            self.socket.close()
            raise NotPermitted(f"cannot listen at {path}: {error.strerror}") from None

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self.socket.close()
        with suppress(FileNotFoundError):  # asyncio of Python 3.13 and newer removes it itself
            os.unlink(self._path)
