"""The layout of a world file, read from world.h: a structure for each `struct` there, by its name.

The structures lie right over the mapped file: setting a number is one aligned store that every reader sees at once.
"""

import ctypes
import pathlib
import re
from typing import Any

_TYPES: dict[str, Any] = {
    "char": ctypes.c_char,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "uint8_t": ctypes.c_uint8,
    **dict.fromkeys(("uint32_t", "word"), ctypes.c_uint32),
    **dict.fromkeys(("uint64_t", "wide"), ctypes.c_uint64),
}
_TEXT = pathlib.Path(__file__).with_name("world.h").read_text()
SIZES = {name: int(number) for name, number in re.findall(r"^    (\w+) = (\d+),?$", _TEXT, re.MULTILINE)}


def _structures() -> dict[str, Any]:
    found = dict(_TYPES)
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", _TEXT, re.MULTILINE | re.DOTALL):
        fields = []
        for kind, field, sizes in re.findall(r"^    (?:struct )?(\w+) (\w+)((?:\[\w+\])*);", body, re.MULTILINE):
            what = found[kind]
            for size in reversed(re.findall(r"\w+", sizes)):
                what = what * (SIZES.get(size) or int(size))
            fields.append((field, what))
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


STRUCTURES = _structures()
