"""Send a notice to one address, in this process; notice_process runs it in a separate one."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from fallow.core.errors import FallowError, PartMissing, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.plain_text import as_plain, as_plain_text

LIMIT_S = 15.0


def deliver(url: str, title: str, text: str, limit_s: float = LIMIT_S) -> Outcome:
    """Send a notice as plain text: through Apprise if it knows the address, else as JSON to a plain web address.

    The limit is for the service: Apprise is loaded before it begins, which takes seconds on a busy machine.
    """
    why = refusal(url)
    failure = str(why) if why else _within(limit_s, lambda: _send(url, as_plain(title), as_plain_text(text)))
    to = without_secrets(url)
    return Outcome(failure is None, f"told {to}" if failure is None else f"could not tell {to}: {failure}")


def refusal(url: str) -> FallowError | None:
    """Return why nothing could ever be sent there, without the address's secrets; None if it may work."""
    to = without_secrets(url)
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        plain = False
    try:
        known = _apprise().Apprise().add(url)
    except ImportError:
        return None if plain else PartMissing.of(f"a notice to {to}", "apprise")
    except Exception as error:  # noqa: BLE001  a plugin may raise anything, and its message may repeat the address
        return WrongUsage(f"no notice can be sent to {to}: Apprise fails on the address with {type(error).__name__}")
    return None if known or plain else WrongUsage(f"no notice can be sent to {to}: Apprise does not know the address")


def without_secrets(url: str) -> str:
    """Return scheme and host. The rest of such a URL is often a password, which must not be logged."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    if parts.scheme in ("http", "https"):
        return f"{parts.scheme}://{parts.hostname}/…"
    return f"{parts.scheme}://…" if parts.scheme else "the address"


def _apprise() -> Any:  # noqa: ANN401  a module without types
    from importlib import import_module  # noqa: PLC0415  loaded only to send a notice

    # Apprise logs what it could not deliver, with addresses.
    import_module("logging").getLogger("apprise").disabled = True
    return import_module("apprise")


def _send(url: str, title: str, text: str) -> str | None:
    """Send a notice; return why that failed, or None."""
    try:
        apprise = _apprise()
    except ImportError:
        return _post(url, title, text)
    postbox = apprise.Apprise()
    if not postbox.add(url):
        return _post(url, title, text)
    # Declared as text: a service that wants HTML gets it escaped.
    sent = postbox.notify(title=title, body=text, body_format=apprise.NotifyFormat.TEXT)
    return None if sent else "Apprise could not deliver it"


def _post(url: str, title: str, text: str) -> str | None:
    """Post JSON: Slack, Mattermost and Google Chat show only `text`; others may want the title separately."""
    import json  # noqa: PLC0415  loaded only to send a notice
    from urllib.request import Request, urlopen  # noqa: PLC0415

    body = json.dumps({"title": title, "text": f"{title}: {text}"}).encode()
    request = Request(url, body, {"Content-Type": "application/json", "User-Agent": "fallow"})  # noqa: S310  http or https
    try:
        with urlopen(request, timeout=LIMIT_S):  # noqa: S310  the same
            return None
    except OSError as error:  # URLError is one
        return str(error)


def _within(limit_s: float, send: Callable[[], str | None]) -> str | None:
    """Return why sending failed, or None. A connection may stay open without end: its thread is left behind."""
    from queue import Empty, SimpleQueue  # noqa: PLC0415  loaded only to send a notice
    from threading import Thread  # noqa: PLC0415

    answers: SimpleQueue[str | None] = SimpleQueue()

    def try_to() -> None:
        try:
            answers.put(send())
        except Exception as error:  # noqa: BLE001  a plugin of Apprise may raise anything; then the notice failed
            answers.put(f"it failed with {type(error).__name__}")  # what it says may repeat the address

    Thread(target=try_to, name="fallow-notice", daemon=True).start()
    try:
        return answers.get(timeout=limit_s)
    except Empty:
        return f"no answer in {limit_s:g} s"
