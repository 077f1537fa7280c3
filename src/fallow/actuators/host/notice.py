"""Send one message to several addresses from a process of its own, or only check the addresses.

The libraries take much memory, and a service may keep a connection open without end; both end with that process. What
to send comes on its stdin: addresses contain passwords, and all users can read a command line.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fallow.actuators.process import programs
from fallow.core.errors import FallowError, PartMissing, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.plain_text import as_plain, as_plain_text

_START_S = 30.0
"""Longer than an interpreter and the libraries may take to start on a busy machine."""
_LIMIT_S = 15.0
"""For the services, from then on."""
_KINDS: dict[str, type[FallowError]] = {kind.__name__: kind for kind in (PartMissing, WrongUsage)}
_Answer = tuple[str, str]
"""The kind of the error, empty if there is none, and a sentence."""


def send(
    environ: Mapping[str, str], urls: Sequence[str], title: str, text: str, limit_s: float = _LIMIT_S
) -> list[Outcome]:
    """Send a message to all addresses at once; return the outcome of each, without the secrets of its address."""
    answers = _ask(environ, urls, {"title": title, "text": text, "limit_s": limit_s})
    return [Outcome(not kind, words) for kind, words in answers]


def refusals(environ: Mapping[str, str], urls: Sequence[str]) -> list[FallowError | None]:
    """Return for each address why nothing could ever be sent to it; None if it may work. Nothing is sent."""
    answers = _ask(environ, urls, {"limit_s": _LIMIT_S}) if urls else []
    return [_KINDS.get(kind, FallowError)(words) if kind else None for kind, words in answers]


def without_secrets(url: str) -> str:
    """Return scheme and host. The rest of such a URL is often a password, which must not be logged."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.hostname}/…"
    return f"{parts.scheme}://…" if parts.scheme else "the address"


def _ask(environ: Mapping[str, str], urls: Sequence[str], order: Mapping[str, object]) -> list[_Answer]:
    try:
        given = json.dumps({"urls": list(urls), **order}).encode()
        ran = programs.run([sys.executable, "-P", "-m", __name__], environ, _START_S + _LIMIT_S, given)
        answers = [(str(kind), str(words)) for kind, words in json.loads(ran.output.strip().rpartition(b"\n")[2])]
    except FallowError as error:
        return [(FallowError.__name__, f"no notice could be sent: {error}")] * len(urls)
    except (ValueError, TypeError):
        answers = []
    # What else it printed may repeat an address, and is not passed on.
    return (
        answers
        if len(answers) == len(urls)
        else [(FallowError.__name__, "the sending of a notice failed")] * len(urls)
    )


def main() -> None:
    """Send the message on stdin to all addresses at once; without a text, only check them."""
    from concurrent.futures import ThreadPoolExecutor, wait  # noqa: PLC0415  loaded only to send a notice

    order = json.load(sys.stdin)
    urls = order["urls"]
    answers = [_checked(url) for url in urls]  # before the time counts: it loads the libraries
    if "text" in order:
        pool, late = ThreadPoolExecutor(len(urls)), f"no answer in {order['limit_s']:g} s"
        title, text = as_plain(order["title"]), as_plain_text(order["text"])
        good = [number for number, (kind, _) in enumerate(answers) if not kind]
        sent = {number: pool.submit(_sent, urls[number], title, text) for number in good}
        wait(sent.values(), order["limit_s"])
        for number, each in sent.items():
            failure = each.result() if each.done() else late
            if failure:
                words = f"could not tell {without_secrets(urls[number])}: {failure}"
                answers[number] = (FallowError.__name__, words)
    print(json.dumps(answers), flush=True)  # noqa: T201
    os._exit(0)  # the thread of a service that does not answer would wait on


def _checked(url: str) -> _Answer:
    """Return why nothing could ever be sent there, or that something was: who only checks reads no more of it."""
    to, apprise = without_secrets(url), _apprise()
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname)
        if (apprise is not None and apprise.Apprise().add(url)) or is_plain:
            return "", f"told {to}"
    except Exception as error:  # noqa: BLE001  a plugin may raise anything, and its message may repeat the address
        return WrongUsage.__name__, f"no notice can be sent to {to}: it fails with {type(error).__name__}"
    if apprise is None:
        return PartMissing.__name__, str(PartMissing.of(f"a notice to {to}", "apprise"))
    return WrongUsage.__name__, f"no notice can be sent to {to}: Apprise does not know the address"


def _sent(url: str, title: str, text: str) -> str | None:
    """Send through Apprise if it knows the address, else as JSON; return why that failed, or None."""
    apprise = _apprise()
    try:
        postbox = None if apprise is None else apprise.Apprise()
        if postbox is None or not postbox.add(url):
            return _post(url, title, text)
        # Declared as text: a service that wants HTML gets it escaped.
        done = postbox.notify(title=title, body=text, body_format=apprise.NotifyFormat.TEXT)
    except Exception as error:  # noqa: BLE001  as above
        return f"it failed with {type(error).__name__}"
    return None if done else "Apprise could not deliver it"


def _apprise() -> Any:  # noqa: ANN401  a module without types
    """Return Apprise; None if it is not installed."""
    from importlib import import_module  # noqa: PLC0415  loaded only to send a notice

    # Apprise logs what it could not deliver, with addresses.
    import_module("logging").getLogger("apprise").disabled = True
    try:
        return import_module("apprise")
    except ImportError:
        return None


def _post(url: str, title: str, text: str) -> str | None:
    """Post JSON: Slack, Mattermost and Google Chat show only `text`; others may want the title separately.

    Return why that failed, or None.
    """
    from urllib.request import Request, urlopen  # noqa: PLC0415  loaded only to send a notice

    body = json.dumps({"title": title, "text": f"{title}: {text}"}).encode()
    request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "fallow"})  # noqa: S310  http or https
    try:
        urlopen(request, timeout=_LIMIT_S).close()  # noqa: S310  the same
    except OSError as error:  # URLError is one
        return str(error)
    return None


if __name__ == "__main__":
    main()
