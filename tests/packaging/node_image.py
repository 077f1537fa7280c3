"""An image for a node, built with podman from the Containerfile and what this machine has: no registry is asked.

As a program it writes the image to a file: python -m tests.packaging.node_image FILE
"""

import base64
import hashlib
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

from packaging.utils import canonicalize_name

from tests.places import BUILD_S, REPOSITORY
from tests.real_owners import Podman

IMAGE = "fallow"
_LEFT_OUT = shutil.ignore_patterns(
    *("site-packages", "dist-packages", "config-*", "*.a", "*.opt-*.pyc", "test", "tests", "ensurepip", "idlelib"),
    *("tkinter", "turtledemo", "lib2to3", "pydoc_data", "distutils", "unittest", "_test*", "__phello__"),
)


def _libraries(files: list[pathlib.Path]) -> set[str]:
    """Return the shared libraries that programs and modules load, with the loader itself."""
    said = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> )?(/\S+) \(0x", said))


def make_base(podman: Podman, root: pathlib.Path, modules: list[pathlib.Path]) -> None:
    """Import an image with the Python that runs the tests and a shell: what the usual base has, and less."""
    python = pathlib.Path(sys._base_executable).resolve()
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=_LEFT_OUT, symlinks=True)
    installer = pathlib.Path(str(importlib.metadata.distribution("pip").locate_file("pip")))
    shutil.copytree(installer, root / str(library).lstrip("/") / "pip")
    loaded = _libraries([python, *(library / "lib-dynload").glob("*.so"), *modules])
    for name in (str(python), *loaded):
        target = root / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, target)
    for folder in ("bin", "etc", "tmp", "usr/bin", "run/lock", "var/lib", "proc", "sys", "dev"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("tmp", "run/lock"):
        (root / folder).chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "usr/bin/python3").unlink(missing_ok=True)
    (root / "usr/bin/python3").symlink_to(python)
    shutil.copy(str(shutil.which("busybox")), root / "bin/busybox")
    for name in ("sh", "rm"):
        (root / "bin" / name).symlink_to("busybox")
    packed = subprocess.run(["tar", "-C", str(root), "-c", "."], capture_output=True, check=True)
    podman("import", "-", "base", reads=packed.stdout)


def pinned() -> list[tuple[str, str]]:
    """Return what an installation needs, as requirements/run.txt has it."""
    text = (REPOSITORY / "requirements/run.txt").read_text()
    return [(name, version) for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)]


def pack(name: str, to: pathlib.Path) -> pathlib.Path:
    """Write the wheel of a package as it is installed here."""
    found = importlib.metadata.distribution(name)
    about = next(file for file in found.files or [] if file.name == "WHEEL").locate()
    tags = re.findall(r"^Tag: (.*)-(.*)-(.*)$", pathlib.Path(str(about)).read_text(), re.MULTILINE)
    stem = f"{canonicalize_name(name).replace('-', '_')}-{found.version}"
    made = to / f"{stem}-{'-'.join('.'.join(dict.fromkeys(part)) for part in zip(*tags, strict=True))}.whl"
    lines = []
    with zipfile.ZipFile(made, "w") as packed:
        for file in found.files or []:
            if file.suffix == ".pyc" or file.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            program = file.parts[0] == ".."
            inside = f"{stem}.data/scripts/{file.name}" if program else str(file)
            content = pathlib.Path(str(file.locate())).read_bytes()
            entry = zipfile.ZipInfo(inside)
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            packed.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{inside},sha256={digest},{len(content)}\n")
        record = next(str(file) for file in found.files or [] if file.name == "RECORD")
        packed.writestr(record, "".join([*lines, f"{record},,\n"]))
    return made


def build(podman: Podman, folder: pathlib.Path) -> None:
    """Build the image from the Containerfile, the wheel of this repository, and wheels of what is installed here."""
    context, wheels, root = (folder / name for name in ("context", "wheels", "root"))
    for each in (context / "requirements", context / "dist", wheels, root):
        each.mkdir(parents=True)
    lines, modules = [], []
    for name, version in pinned():
        try:
            made = pack(name, wheels)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}\n")
        files = importlib.metadata.files(name) or []
        modules += [
            pathlib.Path(str(file.locate())) for file in files if file.suffix == ".so" or file.name == "py-spy"
        ]
    (context / "requirements/run.txt").write_text("".join(lines))
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(context / "dist")]
    subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True)
    make_base(podman, root, modules)
    arguments = ("BASE=localhost/base", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels", "PIP_NO_COMPILE=1")
    podman(
        *(
            "build",
            "-q",
            "--layers=false",
            "--isolation=chroot",
            "--network=host",
            "--volume",
            f"{wheels}:/wheels:ro",
        ),
        *(word for each in arguments for word in ("--build-arg", each)),
        *("-f", str(REPOSITORY / "packaging/container/Containerfile"), "-t", IMAGE, str(context)),
        limit_s=2 * BUILD_S,  # it installs everything, on a file system that copies each layer
    )
    shutil.rmtree(folder)


def save(file: pathlib.Path) -> None:
    """Build the image and write it to a file, as `podman load` reads it."""
    podman = Podman()
    try:
        build(podman, file.parent / f"{file.name}.build")
        podman("save", "-q", "-o", str(file), IMAGE)
    finally:
        podman.close()


if __name__ == "__main__":
    save(pathlib.Path(sys.argv[1]).absolute())
