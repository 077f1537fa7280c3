"""`fallow completion`: print what makes a shell complete fallow's words."""

import argparse

from fallow.engine.machine.world import World
from fallow.interfaces.cli.main import COMMANDS, command_of, without_command
from fallow.interfaces.cli.options import Parser, common
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Print what makes a shell complete fallow's commands, options and fixed values,
names of files and, in bash, the numbers of this machine's GPUs."""
EXAMPLES = """\
  source <(fallow completion bash)             for this shell only
  mkdir -p ~/.local/share/bash-completion/completions
  fallow completion bash > ~/.local/share/bash-completion/completions/fallow
  mkdir -p ~/.zfunc ~/.config/fish/completions
  fallow completion zsh > ~/.zfunc/_fallow     with fpath+=(~/.zfunc)
  fallow completion fish > ~/.config/fish/completions/fallow.fish"""
SHELLS = ("bash", "zsh", "fish")
_GPUS = """\
_fallow_gpus() {
    local gpus=(/proc/driver/nvidia/gpus/*/)
    [[ ! -d ${gpus[0]} ]] || compgen -W "all ${!gpus[*]}" -- "$1"
}
"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow completion`."""
    made.usage = f"fallow completion {'|'.join(SHELLS)}"
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"the shell: {', '.join(SHELLS)}")


def run(args: argparse.Namespace, _world: World, _voice: Stderr) -> int:
    """Print the script for the shell."""
    import shtab

    whole = argparse.ArgumentParser("fallow", parents=[without_command(common())], add_help=False)
    names = whole.add_subparsers(metavar="COMMAND")
    gpus = {"bash": "_fallow_gpus"}
    values = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY, "GPUS": gpus, "LIST": gpus, "SUBJECT": gpus}
    for name, what in COMMANDS.items():
        parser = names.add_parser(name, help=what, parents=[command_of(name, common())[1]], add_help=False)
        for action in parser._actions:
            if action.metavar in values:
                action.complete = values[action.metavar]  # type: ignore[attr-defined]  # read by shtab
    script = shtab.complete(whole, args.shell, preamble=_GPUS * (args.shell == "bash"))
    print(script.replace("complete -o bashdefault", "complete -o bashdefault -o default"))  # files behind `--`
    return 0
