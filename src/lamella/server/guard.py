"""Who may speak to a server without accounts: programs on this machine, and pages that it served itself.

Any page in a browser can send requests to 127.0.0.1, and a rebound DNS name makes it read the answers: so the Host must
be a loopback name, and a request with an Origin must come from the same one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from lamella.core.errors import PermissionDenied
from lamella.server.failures import error_answer

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def host_of(host: str) -> str | None:
    """The host name of a Host header; None for nonsense."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


class LoopbackGuard:
    """Refuses foreign hosts and origins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            problem = _problem(headers.get(b"host", ""), headers.get(b"origin"))
            if problem is not None:
                await error_answer(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _problem(host: str, origin: str | None) -> PermissionDenied | None:
    if host_of(host) not in LOOPBACK:
        return PermissionDenied("This server only answers on this machine.", hint="Use http://127.0.0.1 or localhost.")
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        return PermissionDenied("Pages of other origins may not use this server.")
    return None
