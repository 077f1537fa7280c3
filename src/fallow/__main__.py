"""`python -m fallow`: the same as the command, for when it must be this interpreter and this package."""

from fallow.interfaces.cli import entry

if __name__ == "__main__":
    entry()
