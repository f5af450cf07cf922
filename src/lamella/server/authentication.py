"""Authentication: the user of a request, the scopes of its key, and the origins that may send requests.

Every path of the API needs authentication unless it is in `PUBLIC`; the page, its files and the description are open.

A page in a browser can send requests to any address, and read the answers after DNS rebinding. So a request with an
Origin must come from the same origin; and while no key is needed, the Host must be a name of this machine.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lamella.app.accounts import LOCAL_IDENTITY, MARK, Accounts
from lamella.core.access import Identity
from lamella.core.access import Scope as KeyScope
from lamella.core.errors import AuthenticationFailed, LamellaError, NotFound, PermissionDenied
from lamella.server.failures import check_query, error_answer

COOKIE = "lamella_login"
"""Holds the key that a page got when it logged in; no script can read it."""

LOGIN_PATH, SETUP_PATH = "/api/v1/login", "/api/v1/setup"
PUBLIC = frozenset({("GET", LOGIN_PATH), ("POST", LOGIN_PATH), ("POST", SETUP_PATH)})
"""Requests without authentication: the state of the login, logging in, and setting accounts up."""

MANAGED = re.compile(r"/api/v1/(keys|users|groups)(/|$)|/api/v1/knowledge-bases/[^/]+/grants(/|$)")
"""Changes under these paths need the scope `manage`."""

IN_STATE = "identity"

Identify = Callable[[Request], Awaitable[Identity]]
"""Says who asks; raises `AuthenticationFailed`."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """Authenticates requests. Before accounts are set up, every client on this machine is its one user, if `is_local`;
    others are refused. Accounts are set up with `first_run_token` only, on this machine too, since a proxy may forward
    strangers. A terminal that `holds_folder`, without a server, has access to all data: it needs no token and no key;
    with a key it acts as that key's user.
    """

    accounts: Accounts
    is_local: bool = True
    holds_folder: bool = False
    first_run_token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    async def identify(self, request: Request) -> Identity:
        """Who asks: by key, or as the user of this machine; raises `AuthenticationFailed`."""
        secret = credential(request)
        if self.holds_folder and secret is None:
            return LOCAL_IDENTITY
        set_up = await self.accounts.are_set_up()
        if self.is_local and not set_up and not (secret or "").startswith(MARK):
            # Clients of other vendors' APIs can't leave their key out; what is no key of ours is none here.
            return LOCAL_IDENTITY
        if secret is not None:
            return await self.accounts.identify(secret)
        if not set_up:
            raise AuthenticationFailed(
                "This server has not been set up.",
                hint="Make the first admin with the first-run token that it printed when it started.",
            )
        raise AuthenticationFailed(
            "A key is needed.", hint="Send it as `Authorization: Bearer lam_…`, log in on the page, or set LAMELLA_KEY."
        )

    def check_token(self, token: str) -> None:
        """Raises `AuthenticationFailed` unless this is the first-run token, if one is needed."""
        if self.holds_folder or hmac.compare_digest(token.encode(), self.first_run_token.encode()):
            return
        raise AuthenticationFailed(
            "This is not the first-run token." if token else "Setting accounts up takes the first-run token.",
            hint="The server printed it when it started; `lamella users setup NAME` finds it in the data folder.",
            param="token",
        )


def credential(request: Request) -> str | None:
    """The key of a request: from its headers, else from the page's cookie; raises `AuthenticationFailed` for two."""
    found = []
    if (header := request.headers.get("authorization")) is not None:
        kind, _, value = header.partition(" ")
        if kind.lower() != "bearer" or not value.strip():
            raise AuthenticationFailed(
                "The Authorization header has no key.", hint="Send `Authorization: Bearer lam_…`."
            )
        found.append(value.strip())
    if (key := request.headers.get("x-api-key")) is not None:
        found.append(key.strip())
    if len(set(found)) > 1:
        raise AuthenticationFailed("The request has two different keys.", hint="Send one.")
    return found[0] if found else request.cookies.get(COOKIE)


def needed(method: str, path: str) -> KeyScope:
    """The scope that a request needs."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return KeyScope.READ
    return KeyScope.MANAGE if MANAGED.match(path) else KeyScope.WRITE


def is_closed(method: str, path: str) -> bool:
    """Whether this request needs authentication."""
    return (path.startswith(("/api/", "/v1/")) and (method, path) not in PUBLIC) or path == "/metrics"


class AuthenticationMiddleware:
    """Authenticates a request before its body is read. The server's `identify` is in the request's state."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_closed(scope["method"], scope["path"]):
            try:
                identify: Identify = scope["state"]["identify"]
                identity = await identify(Request(scope))
                check_scope(identity, needed(scope["method"], scope["path"]))
                if "\0" in scope["path"]:
                    raise NotFound("There is nothing at this address: it holds NUL.")
                check_query(scope["query_string"])
            except LamellaError as error:
                await error_answer(error, scope)(scope, receive, send)
                return
            scope["state"][IN_STATE] = identity
        await self._app(scope, receive, send)


def check_scope(identity: Identity, scope: KeyScope) -> None:
    """Raises `PermissionDenied` for a key that is not made for this."""
    if scope not in identity.scopes:
        raise PermissionDenied(f"This key has not the scope {scope.value}.", hint="Use a key that has it.")


def identity_of(request: Request) -> Identity:
    """The authenticated user. Raises `AuthenticationFailed` if there is none."""
    identity: Identity | None = getattr(request.state, IN_STATE, None)
    if identity is None:
        raise AuthenticationFailed("Nobody is asking.", hint="Send a key.")
    return identity


# Pages and hosts

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def host_of(host: str) -> str | None:
    """The host name of a Host header; None if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


FORWARDING = re.compile(
    rb"forwarded|forwarded-for|via|x-forwarded(-.*)?|x-real-ip|x-original-(forwarded-for|host)|x-client-ip"
    rb"|x-cluster-client-ip|client-ip|true-client-ip|cf-(connecting-ip(v6)?|ray|visitor)|fastly-client-ip|fly-client-ip"
    rb"|cdn-loop|x-amzn-trace-id|x-arr-log-id|x-envoy-.*|x-appengine-user-ip|x-azure-(clientip|socketip)|x-proxyuser-ip|tailscale-user-login"
)
"""Headers that a proxy adds: the client is not on this machine, whatever the Host says."""


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
                await error_answer(error, scope)(scope, receive, send)
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
