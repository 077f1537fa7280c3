"""Write the completion for bash. It needs only bash itself, and uses bash-completion for programs if it is there."""

from collections.abc import Iterator, Sequence

from fallow.interfaces.cli.command_words import Command, Kind, Word, help_words

_HEAD = """\
# Completes fallow's words in bash. Written by `fallow completion bash`.

# Each of these sets `found`, from what the shell itself can read.
_fallow_gpus() {
    local parts part number=0 count
    found=(all)
    if [[ -n ${FALLOW_SIMULATE:-} ]]; then
        IFS=, read -ra parts <<<"$FALLOW_SIMULATE"
        for part in "${parts[@]}"; do
            count=${part%%x*}
            [[ $part == *x* && $count =~ ^[0-9]{1,2}$ ]] || count=1
            ((number += 10#$count))
        done
    else
        for part in /proc/driver/nvidia/gpus/*/; do
            [[ ! -d $part ]] || ((++number))
        done
    fi
    for ((count = 0; count < number; count++)); do found+=("$count"); done
}

_fallow_named() {  # the part of each path behind $1, without the end $2: only where it is a plain word
    local path
    found=()
    for path in "${@:3}"; do
        path=${path##*/"$1"} && path=${path%"$2"}
        [[ $path != *[!A-Za-z0-9:_.@-]* ]] && found+=("$path")
    done
}

_fallow_protections() {
    local folder=${FALLOW_CLAIM_DIR:-/run/lock/fallow}
    [[ -d $folder ]] || folder=/tmp/fallow-claims
    [[ -z ${FALLOW_SIMULATE:-} || -n ${FALLOW_CLAIM_DIR:-} ]] || folder=/tmp/fallow-simulated-$EUID/claims
    _fallow_named protection- "" "$folder"/protection-*
}

_fallow_units() { _fallow_named "" .service /sys/fs/cgroup{,/systemd}/system.slice/*.service; }

# Adds parked jobs that live to `found`, from the list that only the user of the daemon can read.
_fallow_parked() {
    local folder=${FALLOW_STATE_DIR:-} line number=0 pattern='^[{]"first": [[]([0-9]{1,7}),'
    if [[ -z $folder ]]; then
        folder=/var/lib/fallow
        ((EUID == 0)) || folder=${XDG_STATE_HOME:-$HOME/.local/state}/fallow
    fi
    [[ -z ${FALLOW_SIMULATE:-} ]] || folder+=/simulated
    [[ -r $folder/parked ]] || return 0
    while ((number++ < 100)) && IFS= read -r line; do
        [[ $line =~ $pattern && -d /proc/${BASH_REMATCH[1]} ]] && found+=("pid:${BASH_REMATCH[1]}")
    done <"$folder/parked"
}

# Adds those words that begin with $2, with $1 before them. compgen -W would run what stands in $() in them.
_fallow_among() {
    local each
    for each in "${@:3}"; do [[ $each != "$2"* ]] || COMPREPLY+=("$1$each"); done
}

# Adds what the word $1 can become, as a value of the kind $2; the other words are those of the kind.
_fallow_complete() {
    local word=$1 kind=$2 before="" found=()
    shift 2
    case $kind in
        words) _fallow_among "" "$word" "$@" ;;
        gpus)
            [[ $word != *,* ]] || { before=${word%,*}, && word=${word##*,}; }
            _fallow_gpus
            ;;
        protection) _fallow_protections ;;
        subject | parked)
            case $word in
                user:*) mapfile -t COMPREPLY < <(compgen -P user: -u -- "${word#user:}") ;;
                unit:*) before=unit: word=${word#unit:} && _fallow_units ;;
                pid:*) [[ $kind != parked ]] || _fallow_parked ;;
                *)
                    _fallow_gpus && found=("$@" "${found[@]:1}")
                    [[ $kind != parked ]] || _fallow_parked
                    ;;
            esac
            ;;
        user) mapfile -t COMPREPLY < <(compgen -u -- "$word") ;;
        file) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        folder) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    esac
    _fallow_among "$before" "$word" "${found[@]}"
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *: ]] || compopt -o nospace
}

"""
_TAIL = """\
# Completes the program behind `--`, with its own completion if bash-completion knows it.
_fallow_program() {
    local at offset
    for ((at = 0; at < COMP_CWORD; at++)); do [[ ${COMP_WORDS[at]} != -- ]] || break; done
    for offset in _comp_command_offset _command_offset; do
        if declare -F "$offset" >/dev/null; then "$offset" $((at + 1)) && return; fi
    done
    local what=-f
    ((at + 1 < COMP_CWORD)) || what=-c
    compopt -o filenames  # which bash quotes: anybody may have named a file $(...)
    mapfile -t COMPREPLY < <(compgen "$what" -- "$1")
}

_fallow() {
    local IFS=$' \\t\\n' line=${COMP_LINE:0:COMP_POINT} words at=1 word="" before command
    local programs bare options value="" optional=""
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] || { word=${words[-1]} && unset 'words[-1]'; }
    COMPREPLY=()
    while ((at < ${#words[@]})) && [[ ${words[at]} == -* ]]; do
        [[ ${words[at]} != --log-format ]] || ((++at))
        [[ ${words[at]} != --simulate || ! ${words[at + 1]:-} =~ ^[0-9]+x ]] || ((++at))
        ((++at))
    done
    command=${words[at]:-}
    _fallow_command "$command"
    if [[ " ${words[*]} " == *" -- "* ]]; then
        [[ -z $programs ]] || _fallow_program "$word"
        return
    fi
    if [[ $command == compat ]] && ((at + 1 < ${#words[@]})); then
        _fallow_complete "$word" file
        return
    fi
    before=${words[-1]}
    if [[ $word == --*=* ]]; then
        before=${word%%=*}
        _fallow_value "$command" "$before"
        value=${value:-anything}
        _fallow_complete "${word#*=}" $value
        COMPREPLY=("${COMPREPLY[@]/#/"$before="}")
    else
        [[ $before != -* ]] || _fallow_value "$command" "$before"
        [[ -z $value ]] || _fallow_complete "$word" $value
        if [[ -z $value || -n $optional ]]; then
            [[ $word != -* ]] || bare="words $options"
            _fallow_complete "$word" $bare
        fi
    fi
    # bash completes only what stands behind a : or = in a word, if these part words for it.
    local part=${word##*[:=]}
    [[ $COMP_WORDBREAKS != *[:=]* || $part == "$word" ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"$part"}"}")
}

complete -F _fallow fallow
"""


def script(commands: Sequence[Command]) -> str:
    """Return the script."""
    return "".join((_HEAD, *_options(commands), *_values(commands), _TAIL))


def _options(commands: Sequence[Command]) -> Iterator[str]:
    yield "# Sets the options of a command, what its words without an option are, and whether it runs a program.\n"
    yield "_fallow_command() {\n    bare=anything programs=\n    case $1 in\n"
    names = (*(each.name for each in commands if each.name), "help")
    for each in commands:
        options = " ".join(name for word in each.options for name in word.names)
        bare = f"words {' '.join(names)}" if not each.name else _value(each.bare)
        runs = " programs=yes options+=' --'" if each.runs_program else ""
        label = each.name or "''"
        yield f"        {label}) options='{options}' bare='{bare}'{runs} ;;\n"
    yield f"        help) options='' bare='{_value(help_words())}' ;;\n"
    yield "        *) options='' ;;\n    esac\n}\n\n"


def _values(commands: Sequence[Command]) -> Iterator[str]:
    yield "# Sets the kind of the value that an option takes, and whether it can be left out.\n"
    yield "_fallow_value() {\n    case $1:$2 in\n"
    for each in commands:
        for word in each.options:
            if word.kind is not Kind.FLAG:
                label = " | ".join(f"{each.name}:{name}" for name in word.names)
                optional = " optional=yes" if word.may_be_left_out else ""
                yield f"        {label}) value='{_value(word)}'{optional} ;;\n"
    yield "    esac\n}\n\n"


def _value(word: Word | None) -> str:
    return "anything" if word is None else " ".join((word.kind.value, *word.words))
