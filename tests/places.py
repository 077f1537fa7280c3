"""Where everything is, who runs the tests, and how long they wait: for the programs that tests start, too."""

import os
import pathlib
import pwd
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
QUICK = str(REPOSITORY / "tests" / "quick")
"""The PYTHONPATH of a program that starts faster without what nobody here needs."""
BIN = pathlib.Path(sys.executable).parent
LIMIT_S = 240  # for a machine on which much else runs
ME = pwd.getpwuid(os.geteuid()).pw_name
"""Who runs the tests: what a config starts must say whom it runs as, if that is root."""
