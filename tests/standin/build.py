"""Compiling the stand-in library."""

import os
import pathlib
import shutil
import subprocess
import tempfile

SONAME = "libnvidia-ml.so.1"

_HERE = pathlib.Path(__file__).resolve().parent
_FLAGS = (
    f"-std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -pthread -fvisibility=hidden -Wl,-soname,{SONAME}"
).split()


class BuildError(RuntimeError):
    """The library could not be compiled; the message is the compiler's."""


def _compiler() -> str:
    wanted = os.environ.get("CC", "cc")
    for name in (wanted, "cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return found
    raise BuildError("no C compiler found")


def build(into: pathlib.Path) -> pathlib.Path:
    """Compile the library into a folder, unless it is there already, and return the folder.

    Any number of processes may do so at once: the library appears whole or not at all.
    """
    sources = sorted(_HERE.glob("*.c"))
    headers = sorted(_HERE.glob("*.h"))
    library = into / SONAME
    newest = max(path.stat().st_mtime_ns for path in (*sources, *headers, pathlib.Path(__file__)))
    if library.exists() and library.stat().st_mtime_ns > newest:
        return into
    into.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{SONAME}.", dir=into)
    os.close(handle)
    try:
        command = [_compiler(), *_FLAGS, *map(str, sources), "-o", name, "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(done.stderr)
        os.chmod(name, 0o755)
        os.replace(name, library)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)
    return into
