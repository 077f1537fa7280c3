"""Read the answers of Prometheus' HTTP API. What they say is written by others: nothing here raises.

An answer about 20,000 GPUs is 4 MB, and there are several in each look. So only what is needed is decoded, by a
library that checks types meanwhile, and the labels of a GPU, which are the same text in each answer, only once.
"""

from collections import Counter
from functools import lru_cache
from math import isfinite, nan
from typing import Literal

import msgspec

from fallow.core.http import HttpAnswer
from fallow.core.units import printable
from fallow.core.unknown import Unknown

Key = tuple[str, ...]
"""The values of some labels; empty for a label that is not there, which is the same to Prometheus."""
Vector = dict[Key, float]
_LONGEST_COMPLAINT = 200
_Sample = tuple[float, str]
_NOT_READ = (msgspec.MsgspecError, ValueError, RecursionError)


class _Answer(msgspec.Struct):
    status: str = ""
    error: object = "no reason"
    warnings: object = None
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Series(msgspec.Struct, gc=False):
    metric: msgspec.Raw
    value: _Sample


class _Vector(msgspec.Struct):
    resultType: Literal["vector"]  # noqa: N815  Prometheus' name
    result: list[_Series]


class _Scalar(msgspec.Struct):
    resultType: Literal["scalar"]  # noqa: N815
    result: _Sample


_ANSWER = msgspec.json.Decoder(_Answer)
_VECTOR = msgspec.json.Decoder(_Vector)
_SCALAR = msgspec.json.Decoder(_Scalar)


class LabelReader(dict[bytes, Key]):
    """Reads the labels with these names. What it has read it knows, so it is for the answers of one look."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._decoder = _decoder(names)

    def __missing__(self, text: bytes) -> Key:
        key = self[text] = msgspec.structs.astuple(self._decoder.decode(text))
        return key


def vector(answer: HttpAnswer, labels: LabelReader) -> Vector | Unknown:
    """Return the value of each series by its labels, and no number for two with the same.

    Unknown if anything of the answer is not as it should be.
    """
    data = _data(answer)
    if isinstance(data, Unknown):
        return data
    try:
        found = _VECTOR.decode(data).result
        keys = [labels[bytes(each.metric)] for each in found]
        made = dict(zip(keys, [float(each.value[1]) for each in found], strict=True))
    except _NOT_READ as error:
        return Unknown(f"Prometheus answered with something else than a vector: {_said(error)}")
    if len(made) < len(keys):
        made.update((key, nan) for key, times in Counter(keys).items() if times > 1)
    return made


def scalar(answer: HttpAnswer) -> float | Unknown:
    """Return the one number of an answer."""
    data = _data(answer)
    if isinstance(data, Unknown):
        return data
    try:
        found = float(_SCALAR.decode(data).result[1])
    except _NOT_READ as error:
        return Unknown(f"Prometheus answered with something else than a scalar: {_said(error)}")
    return found if isfinite(found) else Unknown("Prometheus answered with something else than a number")


def _data(answer: HttpAnswer) -> msgspec.Raw | Unknown:
    try:
        body = _ANSWER.decode(answer.body)
    except _NOT_READ:
        return Unknown(f"Prometheus answered {answer.status}, and nothing that can be read")
    if answer.status != 200 or body.status != "success":
        return Unknown(f"Prometheus answered {answer.status}: {_said(body.error)}")
    if body.warnings:
        return Unknown(f"Prometheus answered in part: {_said(body.warnings)}")
    return body.data


@lru_cache(maxsize=32)
def _decoder(names: tuple[str, ...]) -> "msgspec.json.Decoder[msgspec.Struct]":
    """Return what decodes the labels of a series: a label that is no text is a mistake, one without a name is not."""
    return msgspec.json.Decoder(msgspec.defstruct("_Labels", [(name, str, "") for name in names], gc=False))


def _said(found: object) -> str:
    return printable(str(found))[:_LONGEST_COMPLAINT]
