"""Write the completion for zsh, with the sentence of each command and option."""

from collections.abc import Iterator, Sequence

from fallow.interfaces.cli.command_words import Command, Kind, Word, help_words
from fallow.interfaces.cli.main import HELP, SHOWS_HELP

_HEAD = """\
#compdef fallow
# Completes fallow's words in zsh. Written by `fallow completion zsh`.

# The numbers of the GPUs, in `found`, from what the shell itself can read.
_fallow_read_gpus() {
    local part number=0
    local -a parts
    if [[ -n $FALLOW_SIMULATE ]]; then
        for part in ${(s:,:)FALLOW_SIMULATE}; do
            if [[ $part == <1-99>x* ]]; then (( number += ${part%%x*} )); else (( number += 1 )); fi
        done
    else
        parts=(/proc/driver/nvidia/gpus/*(N/))
        number=$#parts
    fi
    found=()
    (( number == 0 )) || found=({0..$((number - 1))})
}

_fallow_gpus() {
    local -a found
    _fallow_read_gpus
    _sequence -s , compadd - all $found
}

_fallow_protections() {
    local folder=${FALLOW_CLAIM_DIR:-/run/lock/fallow}
    [[ -d $folder ]] || folder=/tmp/fallow-claims
    [[ -z $FALLOW_SIMULATE || -n $FALLOW_CLAIM_DIR ]] || folder=/tmp/fallow-simulated-$EUID/claims
    local -a found=($folder/protection-<1->(N:t))
    compadd -- ${found#protection-}
}

_fallow_subjects() {
    local -a found
    if compset -P user:; then
        _users
    elif compset -P unit:; then
        found=(/sys/fs/cgroup{,/systemd}/system.slice/*.service(N:t:r))
        compadd -- $found
    else
        _fallow_read_gpus
        compadd -- $found ${@:#*:}
        compadd -S '' -- ${(M)@:#*:}
    fi
}

# A subject, or a parked job that lives, from the list that only the user of the daemon can read.
_fallow_parked() {
    local folder=${FALLOW_STATE_DIR:-} line
    local -a lines found
    if [[ -z $folder ]]; then
        folder=/var/lib/fallow
        (( EUID == 0 )) || folder=${XDG_STATE_HOME:-$HOME/.local/state}/fallow
    fi
    [[ -z $FALLOW_SIMULATE ]] || folder+=/simulated
    if [[ $PREFIX != (user|unit):* && -r $folder/parked ]]; then
        lines=(${(f)"$(<$folder/parked)"})
        for line in $lines[1,100]; do
            [[ $line =~ '^[{]"first": [[]([0-9]{1,7}),' && -d /proc/$match[1] ]] && found+=(pid:$match[1])
        done
        compadd -- $found
    fi
    [[ $PREFIX == pid:* ]] || _fallow_subjects "$@"
}

_fallow_words() {
    compadd -- ${@:#*:}
    compadd -S '' -- ${(M)@:#*:}
}

"""
_TAIL = """\
_fallow() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    _arguments -C -S $_fallow_shared '1:command:_fallow_commands' '*::word:->words' && return
    [[ $state == words ]] || return
    local command=$words[1] at=${words[(i)--]}
    curcontext=${curcontext%:*}-$command:
    if [[ $command == (run|fill) ]] && (( at < CURRENT )); then
        shift $at words
        (( CURRENT -= at ))
        _normal
        return
    fi
    _fallow_command $command
}

if [[ $funcstack[1] == _fallow ]]; then _fallow "$@"; else compdef _fallow fallow; fi
"""


def script(commands: Sequence[Command]) -> str:
    """Return the script."""
    return "".join((_HEAD, *_shared(commands[0]), *_names(commands[1:]), *_commands(commands[1:]), _TAIL))


def _shared(before: Command) -> Iterator[str]:
    yield "typeset -ga _fallow_shared\n_fallow_shared=(\n"
    yield from (f"    {spec}\n" for word in before.options for spec in _option(word))
    yield ")\n\n"


def _names(commands: Sequence[Command]) -> Iterator[str]:
    yield "_fallow_commands() {\n    local -a found=(\n"
    for name, what in (*((each.name, each.what) for each in commands), (HELP, SHOWS_HELP)):
        yield f"        {_quoted(f'{name}:{_plain(what)}')}\n"
    yield "    )\n    _describe -t commands command found\n}\n\n"


def _commands(commands: Sequence[Command]) -> Iterator[str]:
    yield "_fallow_command() {\n    case $1 in\n"
    for each in commands:
        specs = [spec for word in each.options for spec in _option(word)]
        if each.bare is not None:
            many = "*" if each.bare.several else "1"
            specs.append(_quoted(f"{many}:{each.bare.metavar.lower()}:{_action(each.bare)}"))
        if each.name == "compat":
            specs.append("'*:file:_files'")
        lines = " \\\n                ".join(specs)
        yield f"        {each.name})\n            _arguments -S \\\n                {lines}\n            ;;\n"
    yield f"        help) _arguments {_quoted(f'1:command:{_action(help_words())}')} ;;\n    esac\n}}\n\n"


def _option(word: Word) -> Iterator[str]:
    """Yield what `_arguments` reads, for each name of an option; one that was typed is not offered again."""
    for name in word.names:
        others = "*" if word.several else f"({' '.join(word.names)})"
        takes = ""
        if word.kind is not Kind.FLAG:
            colon = "::" if word.may_be_left_out else ":"
            takes = f"{colon}{_plain(word.metavar.lower())}:{_action(word)}"
        joined = "=" if takes and name.startswith("--") else ""
        yield _quoted(f"{others}{name}{joined}[{_plain(word.what)}]{takes}")


def _action(word: Word) -> str:
    words = " ".join(word.words)
    return {
        Kind.WORDS: f"_fallow_words {words}" if any(each.endswith(":") for each in word.words) else f"({words})",
        Kind.FILE: "_files",
        Kind.FOLDER: "_files -/",
        Kind.GPUS: "_fallow_gpus",
        Kind.USER: "_users",
        Kind.PROTECTION: "_fallow_protections",
        Kind.SUBJECT: f"_fallow_subjects {words}".replace(":", "\\:"),
        Kind.PARKED: f"_fallow_parked {words}".replace(":", "\\:"),
    }.get(word.kind, " ")


def _plain(text: str) -> str:
    """Return a text without what `_arguments` would read as its own marks."""
    return "".join(f"\\{letter}" if letter in "[]:\\" else letter for letter in text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
