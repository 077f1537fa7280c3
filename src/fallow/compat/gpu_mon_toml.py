"""Translates the INI file of `gpu_mon` into a fallow.toml."""

import json
from collections.abc import Iterable

from fallow.compat.gpu_mon_file import GpuMonFile


def as_toml(file: GpuMonFile, user: str) -> str:
    """Return the fallow.toml that says the same; `user` is the user who called gpu_mon, as whom its programs ran."""
    users = "ignore" if file.user_idle_s is None else "yield"
    lines = ["[terminals]", f"users = {_text(users)}"]
    if file.user_idle_s is not None:
        lines += [f'user_idle = "{file.user_idle_s}s"', f"ignore_user = {_texts(file.ignore_users)}"]
    for number, filler in enumerate(file.fillers):
        gpus = "all" if filler.gpus is None else ",".join(map(str, filler.gpus))
        lines += ["", "[[filler]]", f"name = {_text(filler.name)}", f"command = {_texts(filler.command)}"]
        lines.append(f"user = {_text(user)}")
        lines += [f"gpus = {_text(gpus)}", f"together = {'true' if filler.together else 'false'}"]
        if any(filler.shares_gpus_with(before) for before in file.fillers[:number]):
            lines.append(f"priority = {-number}")
        lines += [f'idle_for = "{file.interval_s}s"', f"ignore = {_texts(file.ignored_by(filler))}"]
        lines += [f"cwd = {_text(filler.folder)}"] if filler.folder else []
        lines += [f"log = {_text(filler.log)}"] if filler.log else []
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"
