"""Servers on this machine are spoken to directly, whatever proxy the environment names."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2

CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


def direct_client(url: str, timeout: float) -> httpx2.AsyncClient | None:
    """A client that ignores proxies, for this machine's own addresses; None leaves the SDK its own."""
    host = urlsplit(url).hostname or ""
    if host not in ("localhost", "::1") and not host.startswith("127."):
        return None
    return httpx2.AsyncClient(timeout=timeout, trust_env=False, limits=CONNECTIONS)
