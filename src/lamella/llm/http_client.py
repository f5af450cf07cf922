"""The HTTP client of an adapter: direct to this machine's own servers, and speaking with no key but the given one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import httpx2
import structlog

log = structlog.get_logger()

CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


def http_client(
    usual: Callable[..., httpx2.AsyncClient], base_url: str, key: str, timeout: float, *, log_bodies: bool = False
) -> httpx2.AsyncClient:
    """A client for one provider; `usual` makes the SDK's own. `timeout` is in seconds of silence.

    With `log_bodies` every body is logged as it is sent; headers, and so the key, never are.

    This machine's own servers are spoken to directly, whatever proxy the environment names.
    """
    hooks = {"request": [_speak_as(base_url, key), *([_log_body] if log_bodies else [])]}
    if _is_this_machine(base_url):
        return usual(timeout=timeout, trust_env=False, limits=CONNECTIONS, follow_redirects=False, event_hooks=hooks)
    return usual(timeout=timeout, event_hooks=hooks)


async def _log_body(request: httpx2.Request) -> None:
    body = (await request.aread()).decode("utf-8", "replace")
    log.info("LLM_REQUEST", method=request.method, url=str(request.url), body=body)


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _speak_as(base_url: str, key: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Puts the key on every request to the provider, and nobody else's.

    The SDKs let `ANTHROPIC_CUSTOM_HEADERS` and `OPENAI_CUSTOM_HEADERS` of the environment replace it in silence. A
    redirect to another place gets nothing: there the client has taken the key off.
    """
    host = httpx2.URL(base_url).netloc

    async def put_key(request: httpx2.Request) -> None:
        request.headers.pop("x-api-key", None)
        if request.url.netloc == host:
            request.headers["authorization"] = f"Bearer {key}"
        else:
            request.headers.pop("authorization", None)

    return put_key
