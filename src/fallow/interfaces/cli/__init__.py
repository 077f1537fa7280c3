"""The command line."""

import gc
import signal
import sys


def entry() -> None:
    """Run the console script.

    Ctrl-C ends fallow at once, like any program: nothing needs to be restored, because the kernel releases its
    locks. A command that must print or remove something first catches the interruption itself. Some daemons start
    programs with SIGCHLD ignored: the kernel would then discard the exit codes of our children.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # until all is loaded: loaded modules stay, and collecting garbage takes a tenth of the time
    from fallow.interfaces.cli.main import main

    sys.exit(main(sys.argv[1:]))
