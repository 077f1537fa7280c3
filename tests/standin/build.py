"""Compiling the stand-in libraries: libnvidia-ml.so.1 and libcuda.so.1, which show the same world."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

SONAME = "libnvidia-ml.so.1"
CUDA_SONAME = "libcuda.so.1"

_HERE = pathlib.Path(__file__).resolve().parent
_FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"]
_SHARED = sorted(_HERE.glob("*.c"))
_SOURCES = {
    SONAME: [*_SHARED, *sorted(_HERE.glob("nvml/*.c"))],
    CUDA_SONAME: [*_SHARED, *sorted(_HERE.glob("cuda/*.c"))],
}


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
    """Compile the libraries into a folder, unless they are there already, and return the folder.

    Any number of processes may ask for it at once: the first compiles, the others wait for it.
    """
    into.mkdir(parents=True, exist_ok=True)
    with open(f"{into}.lock", "a") as lock:  # beside it: in it are the libraries alone
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile_what_is_old(into)
    return into


def _compile_what_is_old(into: pathlib.Path) -> None:
    headers = [*_HERE.rglob("*.h"), pathlib.Path(__file__)]
    for soname, sources in _SOURCES.items():
        library = into / soname
        newest = max(path.stat().st_mtime_ns for path in (*sources, *headers))
        if not library.exists() or library.stat().st_mtime_ns <= newest:
            _compile(sources, library)


def _compile(sources: list[pathlib.Path], library: pathlib.Path) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{library.name}.", dir=library.parent)
    os.close(handle)
    try:
        command = [_compiler(), *_FLAGS, f"-Wl,-soname,{library.name}", *map(str, sources), "-o", name, "-lm", "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(done.stderr)
        os.chmod(name, 0o755)
        os.replace(name, library)
    finally:
        pathlib.Path(name).unlink(missing_ok=True)
