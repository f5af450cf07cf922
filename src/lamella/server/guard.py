"""Which pages may speak to the server, and by which names it goes.

Any page in a browser can send requests to any address, and a rebound DNS name makes it read the answers. So a request
with an Origin must come from the same one; and as long as no key is needed, the Host must be a name of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from lamella.core.errors import LamellaError, PermissionDenied
from lamella.server.failures import error_answer

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def host_of(host: str) -> str | None:
    """The host name of a Host header; None for nonsense."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


FORWARDING = re.compile(
    rb"forwarded|forwarded-for|via|x-forwarded(-.*)?|x-real-ip|x-original-(forwarded-for|host)|x-client-ip"
    rb"|x-cluster-client-ip|client-ip|true-client-ip|cf-(connecting-ip(v6)?|ray|visitor)|fastly-client-ip|fly-client-ip"
    rb"|cdn-loop|x-amzn-trace-id|x-arr-log-id|x-envoy-.*|x-appengine-user-ip|x-azure-(clientip|socketip)|x-proxyuser-ip|tailscale-user-login"
)
"""Headers that a proxy adds: whoever asks is not on this machine, whatever the Host says."""


class OriginGuard:
    """Refuses pages of other origins; and while the server `is_open` to who has no key, foreign hosts and proxies."""

    def __init__(self, app: ASGIApp, is_open: Callable[[], Awaitable[bool]]) -> None:
        self._app = app
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
            proxied = next((f"header {name.decode('latin-1')}" for name in headers if FORWARDING.fullmatch(name)), None)
            if proxied is None and scope["http_version"] == "1.0":
                # nginx adds no header unless it is told to, and names this machine as the host, but asks by HTTP/1.0.
                proxied = "HTTP/1.0"
            try:
                await self._check(headers.get(b"host", ""), headers.get(b"origin"), proxied)
            except LamellaError as error:
                await error_answer(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _check(self, host: str, origin: str | None, proxied: str | None) -> None:
        """Raises `PermissionDenied`."""
        if proxied is not None and await self._is_open():
            raise PermissionDenied(
                f"This request came through a proxy ({proxied}), and this server needs no "
                "key yet: everybody who reaches the proxy would have everything.",
                hint="Turn accounts on first, on this machine: `lamella users setup NAME`. Then send a key.",
            )
        if host_of(host) not in LOOPBACK and await self._is_open():
            raise PermissionDenied(
                "This server only answers on this machine.", hint="Use http://127.0.0.1 or localhost."
            )
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            raise PermissionDenied("Pages of other origins may not use this server.")
