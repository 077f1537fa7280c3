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

_PLAIN = ("http", "https")
_NOT_INSTALLED = "Apprise is not installed"
_START_S = 30.0
"""Longer than an interpreter and the libraries may take to start on a busy machine."""
_LIMIT_S = 15.0
"""For the services, from then on."""


def send(
    environ: Mapping[str, str], urls: Sequence[str], title: str, text: str, limit_s: float = _LIMIT_S
) -> list[Outcome]:
    """Send a message to all addresses at once; return the outcome of each, without the secrets of its address."""
    failures = _ask(environ, urls, {"title": title, "text": text, "limit_s": limit_s})
    told = [(without_secrets(url), why) for url, why in zip(urls, failures, strict=True)]
    return [Outcome(why is None, f"told {to}" if why is None else f"could not tell {to}: {why}") for to, why in told]


def refusals(environ: Mapping[str, str], urls: Sequence[str]) -> list[FallowError | None]:
    """Return for each address why nothing could ever be sent to it; None if it may work. Nothing is sent."""
    failures = _ask(environ, urls, {}) if urls else []
    return [_refusal(without_secrets(url), why) for url, why in zip(urls, failures, strict=True)]


def _refusal(to: str, why: str | None) -> FallowError | None:
    if why == _NOT_INSTALLED:
        return PartMissing.of(f"a notice to {to}", "apprise")
    return None if why is None else WrongUsage(f"no notice can be sent to {to}: {why}")


def without_secrets(url: str) -> str:
    """Return scheme and host. The rest of such a URL is often a password, which must not be logged."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    if parts.scheme in _PLAIN:
        return f"{parts.scheme}://{parts.hostname}/…"
    return f"{parts.scheme}://…" if parts.scheme else "the address"


def _ask(environ: Mapping[str, str], urls: Sequence[str], order: Mapping[str, object]) -> list[str | None]:
    """Return why each address failed, or None."""
    try:
        given = json.dumps({"urls": list(urls), **order}).encode()
        ran = programs.run([sys.executable, "-P", "-m", __name__], environ, _START_S + _LIMIT_S, given)
        failures = [None if why is None else str(why) for why in json.loads(ran.output.strip().rpartition(b"\n")[2])]
    except FallowError as error:
        return [str(error)] * len(urls)
    except (ValueError, TypeError):
        failures = []
    # What else it printed may repeat an address, and is not passed on.
    return failures if len(failures) == len(urls) else ["the sending of notices failed"] * len(urls)


def main() -> None:
    """Send the message on stdin to all addresses at once; without a text, only check them."""
    from concurrent.futures import ThreadPoolExecutor, wait  # noqa: PLC0415  loaded only to send a notice

    order = json.load(sys.stdin)
    urls = order["urls"]
    failures = [_why_never(url) for url in urls]  # before the time counts: it loads the libraries
    if "text" in order:
        pool, limit_s = ThreadPoolExecutor(len(urls)), order["limit_s"]
        title, text = as_plain(order["title"]), as_plain_text(order["text"])
        good = [number for number, why in enumerate(failures) if why is None]
        sent = {number: pool.submit(_sent, urls[number], title, text) for number in good}
        wait(sent.values(), limit_s)
        for number, each in sent.items():
            failures[number] = each.result() if each.done() else f"no answer in {limit_s:g} s"
    print(json.dumps(failures), flush=True)  # noqa: T201
    os._exit(0)  # the thread of a service that does not answer would wait on


def _why_never(url: str) -> str | None:
    """Return why nothing could ever be sent there; None if it may work."""
    apprise = _apprise()
    try:
        parts = urlsplit(url)
        if (apprise is not None and apprise.Apprise().add(url)) or (parts.scheme in _PLAIN and parts.hostname):
            return None
    except Exception as error:  # noqa: BLE001  a plugin may raise anything, and its message may repeat the address
        return f"Apprise fails on the address with {type(error).__name__}"
    return _NOT_INSTALLED if apprise is None else "Apprise does not know the address"


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
