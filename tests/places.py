"""Where everything is, who runs the tests, and how long they wait: for the programs that tests start, too."""

import os
import pathlib
import pwd
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
QUICK = str(REPOSITORY / "tests" / "quick")
"""The PYTHONPATH of a program that starts faster without what nobody here needs."""
BIN = pathlib.Path(sys.executable).parent
PYTHON = pathlib.Path(sys.executable).name
"""What fallow calls the jobs that the tests start: python or python3, as the tests themselves were started."""
LIMIT_S = 30
BUILD_S = 240
"""How long they wait for what builds or installs: a release, the site, an image."""
OFTEN = "\n[machine]\nevery = '1s'\n"
"""For the config of a daemon whose looks a test waits for."""
ME = pwd.getpwuid(os.geteuid()).pw_name
"""Who runs the tests: what a config starts must say whom it runs as, if that is root."""

NO_DAEMON = {"FALLOW_SOCKET": "/nowhere/fallow.sock"}
"""For a command that is to find no daemon, though one runs."""
