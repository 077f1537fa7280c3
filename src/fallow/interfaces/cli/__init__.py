"""The command line."""

import gc
import signal
import sys


def entry() -> None:
    """The console script.

    Ctrl-C ends us at once and as it ends any program, from the first moment on: nothing that fallow holds needs to be
    put back, since the kernel does that. A verb that has something to say then asks for the interruption itself.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # until all is loaded: what is loaded stays, and looking through it again and again takes a tenth
    from fallow.interfaces.cli.main import main

    sys.exit(main(sys.argv[1:]))
