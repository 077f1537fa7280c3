"""`fallow completion`: print what makes a shell complete fallow's words."""

import argparse
from collections.abc import Callable, Mapping

from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Print what makes a shell complete fallow's commands, options and values. The
values of this machine, such as GPUs, users, services and protections, are read
by the shell itself when a key is pressed: no program is started.

A package puts these files where the shells look for them."""
EXAMPLES = """\
  source <(fallow completion bash)             for this shell only
  mkdir -p ~/.local/share/bash-completion/completions
  fallow completion bash > ~/.local/share/bash-completion/completions/fallow
  mkdir -p ~/.zfunc ~/.config/fish/completions
  fallow completion zsh > ~/.zfunc/_fallow     with fpath+=(~/.zfunc)
  fallow completion fish > ~/.config/fish/completions/fallow.fish"""
SHELLS = ("bash", "zsh", "fish")


def add_options(made: Parser) -> None:
    """Add the options of `fallow completion`."""
    made.usage = f"fallow completion {'|'.join(SHELLS)}"
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"the shell: {', '.join(SHELLS)}")


def run(args: argparse.Namespace, _world: World, _voice: Stderr) -> int:
    """Print the script for the shell."""
    print(script(args.shell), end="")
    return 0


def script(shell: str) -> str:
    """Return the script that a shell reads."""
    from fallow.interfaces.cli import completion_bash, completion_fish, completion_zsh
    from fallow.interfaces.cli.command_words import Command, all_commands

    scripts: Mapping[str, Callable[[list[Command]], str]] = {
        "bash": completion_bash.script,
        "zsh": completion_zsh.script,
        "fish": completion_fish.script,
    }
    return scripts[shell](list(all_commands()))
