"""Parse the text of a config into values, or report the line where it is not TOML."""

import re
import tomllib

from fallow.core.mistake import Mistake
from fallow.engine.config.toml_lines import Lines, lines_of

_PLACE = r"\s*\(at (?:line (\d+), column \d+|end of document)\)$"
_BARE_VALUE = r"""\s*[\w."'-]+\s*=\s*([^\s"'\[{#][^#]*?)\s*(?:#.*)?"""


def parsed(text: str) -> tuple[dict[str, object], Lines] | Mistake:
    """Return the values and their lines; or the mistake where the text stops being TOML."""
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        return _mistake(text, str(error))
    except RecursionError:
        return Mistake("it is nested too deeply", suggestion="no key needs more than three levels")
    except ValueError:
        # Python refuses to read numbers with thousands of digits, and does not say where.
        return Mistake("it holds a number that is far too long")


def _mistake(text: str, message: str) -> Mistake:
    lines = text.replace("\r\n", "\n").split("\n")
    found = re.search(_PLACE, message)
    what = message[: found.start()] if found else message
    if found and found[1]:
        line = int(found[1])
    else:
        line = max((number for number, words in enumerate(lines, start=1) if words.strip()), default=1)
    sentence, suggestion = _in_words(what, lines[line - 1])
    return Mistake(sentence, "", line, suggestion)


def _in_words(what: str, line: str) -> tuple[str, str]:
    if what.startswith("Cannot declare"):
        return "this table is there already", "write it once; those that may be there several times have [[…]]"
    if what.startswith(("Cannot overwrite", "Duplicate")):
        return "this key is there already", "write it once"
    bare = re.fullmatch(_BARE_VALUE, line)
    if bare and bare[1].lower() in ("true", "false"):
        return "this is not TOML", f"write {bare[1].lower()}, in small letters"
    if bare:
        return "this is not TOML", "text stands in quotes"
    return f"this is not TOML: {what[:1].lower()}{what[1:]}", ""
