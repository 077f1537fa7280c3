"""Make the environment that pip has installed below the root of a package one of that package.

What pip has written for the place where it was built is written for the place where it will be. Programs and metadata
that only pip needs go.
"""

import pathlib
import shutil
import sys

root = pathlib.Path(sys.argv[1])
home = root / "usr" / "lib" / "fallow"
(site,) = home.glob("lib/python3.*/site-packages")

shutil.rmtree(home / "share", ignore_errors=True)
shutil.rmtree(home / "include", ignore_errors=True)

# PyYAML reads as well without its copy of a library that Debian has.
for library in site.glob("yaml/_yaml*.so"):
    library.unlink()

PROGRAMS = ("fallow", "py-spy", "python", "python3")
for program in (home / "bin").iterdir():
    if program.name not in PROGRAMS:
        program.unlink()
called = (home / "bin" / "fallow").read_text().split("\n", 1)
(home / "bin" / "fallow").write_text(f"#!/usr/lib/fallow/bin/python3\n{called[1]}")
(home / "bin" / "python3").unlink()
(home / "bin" / "python3").symlink_to("../../../bin/python3")

config = (home / "pyvenv.cfg").read_text().splitlines()
kept = [line for line in config if line.startswith(("home", "include-system", "version"))]
(home / "pyvenv.cfg").write_text("\n".join(kept) + "\n")

for metadata in site.glob("*.dist-info"):
    (metadata / "INSTALLER").write_text("dpkg\n")
    for name in ("RECORD", "REQUESTED", "direct_url.json"):
        (metadata / name).unlink(missing_ok=True)
