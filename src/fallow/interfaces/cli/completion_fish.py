"""Write the completion for fish, with the sentence of each command and option."""

from collections.abc import Iterator, Sequence

from fallow.interfaces.cli.command_words import Command, Kind, Word, help_words
from fallow.interfaces.cli.main import HELP, SHOWS_HELP

_HEAD = """\
# Completes fallow's words in fish. Written by `fallow completion fish`.

# The command that is typed, if there is one already.
function __fallow_command
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]; and string match -q -- '-*' $words[1]
        if test $words[1] = --log-format; or begin
                test $words[1] = --simulate; and string match -qr '^[0-9]+x' -- "$words[2]"
            end
            set -e words[1]
        end
        set -e words[1]
    end
    set -q words[1]; and echo $words[1]
end

function __fallow_in
    test (__fallow_command; or echo -) = $argv[1]; and not contains -- -- (commandline -opc)
end

function __fallow_needs_command
    not __fallow_command >/dev/null
end

# How many words without an option stand behind the command.
function __fallow_has_word
    set -l words (commandline -opc)
    set -l at (contains -i -- $argv[1] $words)
    test (count $words) -gt $at
end

function __fallow_runs_program
    contains -- (__fallow_command; or echo -) run fill; and contains -- -- (commandline -opc)
end

function __fallow_program
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    set -l line (string escape -- $words[(math $at + 1)..-1]) (commandline -ct)
    complete -C "$line"
end

# From what the shell itself can read.
function __fallow_gpu_numbers
    set -l number 0
    if set -q FALLOW_SIMULATE[1]
        for part in (string split , -- $FALLOW_SIMULATE)
            set -l count (string match -r '^([0-9]{1,2})x' -- $part)[2]
            set -q count[1]; or set count 1
            set number (math $number + $count)
        end
    else
        set -l found /proc/driver/nvidia/gpus/*/
        set number (count $found)
    end
    test $number -eq 0; or seq 0 (math $number - 1)
end

function __fallow_gpus
    set -l before (string match -r '^.*,' -- (commandline -ct | string replace -r '^--[a-z-]*=' ''))
    printf '%s\\n' $before(__fallow_gpu_numbers) $before"all"
end

function __fallow_protections
    set -l folder /run/lock/fallow
    test -d $folder; or set folder /tmp/fallow-claims
    set -q FALLOW_SIMULATE[1]; and set folder /tmp/fallow-simulated-(id -u)/claims
    set -q FALLOW_CLAIM_DIR; and set folder $FALLOW_CLAIM_DIR
    set -l found $folder/protection-*
    string match -rg '.*/protection-([0-9]+)$' -- $found
end

function __fallow_subjects
    switch (commandline -ct)
        case 'user:*'
            printf 'user:%s\\n' (__fish_complete_users | string replace -r '\\t.*' '')
        case 'unit:*'
            set -l found /sys/fs/cgroup/system.slice/*.service
            set -a found /sys/fs/cgroup/systemd/system.slice/*.service
            string replace -r '.*/(.*)\\.service' 'unit:$1' -- $found
        case '*'
            __fallow_gpu_numbers
            printf '%s\\n' $argv
    end
end

# The parked jobs that live, from the list that only the user of the daemon can read.
function __fallow_parked
    set -l folder ~/.local/state/fallow
    set -q XDG_STATE_HOME[1]; and set folder $XDG_STATE_HOME/fallow
    test -r /var/lib/fallow/parked; and set folder /var/lib/fallow
    set -q FALLOW_STATE_DIR[1]; and set folder $FALLOW_STATE_DIR
    set -q FALLOW_SIMULATE[1]; and set folder $folder/simulated
    test -r $folder/parked; or return 0
    for pid in (string match -rg '^[{]"first": [[]([0-9]{1,7}),' <$folder/parked)
        test -d /proc/$pid; and echo pid:$pid
    end
end

complete -c fallow -f
complete -c fallow -n __fallow_runs_program -xa '(__fallow_program)'
"""


def script(commands: Sequence[Command]) -> str:
    """Return the script."""
    return "".join((_HEAD, *_before(commands), *(line for each in commands[1:] for line in _command(each))))


def _before(commands: Sequence[Command]) -> Iterator[str]:
    begins = "complete -c fallow -n __fallow_needs_command"
    for name, what in (*((each.name, each.what) for each in commands[1:]), (HELP, SHOWS_HELP)):
        yield f"{begins} -a {name} -d {_quoted(what)}\n"
    for word in commands[0].options:
        yield f"{begins} {_option(word)}\n"
    yield f"complete -c fallow -n '__fallow_in {HELP}' -xa {_values(help_words())}\n"


def _command(each: Command) -> Iterator[str]:
    begins = f"complete -c fallow -n '__fallow_in {each.name}"
    if each.bare is not None:
        once = "" if each.bare.several else f"; and not __fallow_has_word {each.name}"
        yield f"{begins}{once}' {_bare(each.bare)}\n"
    if each.name == "compat":
        yield f"{begins}; and __fallow_has_word {each.name}' -F\n"
    for word in each.options:
        yield f"{begins}' {_option(word)}\n"


def _bare(word: Word) -> str:
    return "-F" if word.kind in (Kind.FILE, Kind.FOLDER) else f"-xa {_values(word)}"


def _option(word: Word) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in word.names)
    takes = ""
    if word.kind in (Kind.FILE, Kind.FOLDER):
        takes = " -rF"
    elif word.kind is not Kind.FLAG:
        takes = f" {'-fa' if word.may_be_left_out else '-xa'} {_values(word)}"
    return f"{names}{takes} -d {_quoted(word.what)}"


def _values(word: Word) -> str:
    words = " ".join(word.words)
    return {
        Kind.GPUS: "'(__fallow_gpus)'",
        Kind.USER: "'(__fish_complete_users)'",
        Kind.PROTECTION: "'(__fallow_protections)'",
        Kind.SUBJECT: f"'(__fallow_subjects {words})'",
        Kind.PARKED: f"'(__fallow_subjects {words}; __fallow_parked)'",
    }.get(word.kind, f"'{words}'")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
