"""Where a person goes back to after a form: the page of ours that they came from."""

from urllib.parse import urlsplit

from starlette.requests import Request

HOME = "/"
SUBJECTS = ("/gpus/", "/jobs/", "/users/")
"""How the addresses of the pages about one thing begin."""
_LONGEST = 500


def back_from(request: Request) -> str:
    """Return the address, on this server, of the page with the form; that of all GPUs if it is not known."""
    try:
        came_from = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return HOME
    if came_from.netloc.lower() != request.headers.get("host", "").lower():
        return HOME
    return way_back(f"{came_from.path}?{came_from.query}" if came_from.query else came_from.path)


def way_back(address: str) -> str:
    """Return an address that a browser sent, if it is one of our pages; else that of all GPUs."""
    path = address.partition("?")[0]
    ours = path == HOME or path.startswith(SUBJECTS)
    is_plain = len(address) <= _LONGEST and address.isascii() and address.isprintable() and "\\" not in address
    return address if ours and is_plain and "#" not in address else HOME
