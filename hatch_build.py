"""What a wheel has beside the package: man pages and completion, written from the parsers when it is built."""

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PROGRAM = """
import sys
sys.path[:] = sys.argv[3:]
from fallow.interfaces.cli.shared_files import write_shared_files
write_shared_files(*sys.argv[1:3])
"""


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Writes them into a folder that is gone when the wheel is there. An editable installation has none."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files, in a program of its own: what it loads is no business of the builder."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        moment_s = os.environ.get("SOURCE_DATE_EPOCH")
        date = datetime.fromtimestamp(int(moment_s), UTC).strftime("%Y-%m-%d") if moment_s else ""
        # Not by PYTHONPATH: where pip isolates a build, a `sitecustomize` of its own takes away from it whatever the
        # environment of pip has too, and an editable fallow there is this very `src`.
        path = [os.path.join(self.root, "src"), *filter(None, sys.path)]
        words = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, self._folder.name, date, *path]
        subprocess.run(words, check=True)
        build_data["shared_data"][os.path.join(self._folder.name, "share")] = "share"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()
