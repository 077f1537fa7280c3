"""The one connection of this process to a database that others can remove, replace or change at any moment.

Whoever asks for the connection gets one to the file that others find. What happened to the file since the last time
is told to the owner, who knows what was written last, and says what is missing.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress

from fallow.actuators.files import state_folder
from fallow.engine.history import sqlite_file


class OwnFile:
    """A file with its connection. Its owner calls it under a lock."""

    def __init__(
        self,
        name: str,
        folder: Callable[[], str],
        connect: Callable[[str], tuple[sqlite3.Connection, bool]],
        changed: Callable[[sqlite3.Connection], None],
        begun_anew: Callable[[], None],
    ) -> None:
        """`connect` opens the file, and returns whether it had no tables before.

        `changed` is called when anybody else may have written it, and `begun_anew` when what was there is gone.
        """
        self.path = ""
        self.is_new = False
        """Whether this process has made its tables."""
        self.was_open = False
        self._name = name
        self._folder = folder
        self._connect = connect
        self._changed = changed
        self._begun_anew = begun_anew
        self._file: tuple[int, int] | None = None
        self._watch: sqlite_file.Watch | None = None

    def database(self) -> sqlite3.Connection:
        """Return the connection, opened or opened again if necessary. Raise OSError, sqlite3.Error or FallowError."""
        if self._watch is not None and self.is_there:
            if not self._watch.others_wrote():
                return self._watch.database
            if not self._watch.has_other_tables():
                self._changed(self._watch.database)
                return self._watch.database
        self.let_go()
        self.path = state_folder.private_file(state_folder.prepared(self._folder()), self._name)
        self._file = sqlite_file.identity(self.path)
        database, self.is_new = self._connect(self.path)
        try:
            self._watch = sqlite_file.Watch(database)
        except BaseException:
            database.close()
            raise
        if self.was_open and self.is_new:
            self._begun_anew()
        self.was_open = True
        self._watch.others_wrote()
        self._changed(database)
        return database

    @property
    def is_there(self) -> bool:
        """Return whether the open file is what others find under its name."""
        return self._file is not None and sqlite_file.identity(self.path) == self._file

    def wait_for_others(self, patience_s: float) -> None:
        """Wait so long for other processes that write, while it is open."""
        if self._watch is not None:
            self._watch.database.execute(f"PRAGMA busy_timeout = {round(patience_s * 1000):d}")

    def set_aside(self) -> str:
        """Rename the file, which is damaged; return where it is. The next one needs no report. Raise OSError."""
        self.let_go()
        kept = sqlite_file.set_aside(self.path)
        self.was_open = False
        return kept

    def let_go(self) -> None:
        """Close the file; it is opened again when it is asked for."""
        if self._watch is not None:
            with suppress(sqlite3.Error):
                self._watch.database.close()
            self._watch = None
