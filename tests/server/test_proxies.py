"""Before accounts are set up nobody is let in through a proxy: it may send the Host of this machine for strangers."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from lamella.server.testing import FIRST_RUN_TOKEN, ServerClient

from .test_bad_input import refused

pytestmark = pytest.mark.anyio

FORWARDING = [
    "Forwarded",
    "X-Forwarded-For",
    "x-forwarded-proto",
    "X-Forwarded-Host",
    "X-Forwarded-Prefix",
    "X-Real-IP",
    "Via",
    "CF-Connecting-IP",
    "True-Client-IP",
    "X-Client-IP",
    "X-Envoy-External-Address",
    "Fly-Client-IP",
    "CDN-Loop",
    "X-Amzn-Trace-Id",
    "X-ARR-LOG-ID",
]


@pytest.mark.parametrize("name", FORWARDING)
async def test_a_request_through_a_proxy_is_refused_while_no_key_is_needed(client: ServerClient, name: str) -> None:
    for path in ("/", "/api/v1/conversations", "/healthz"):
        error = refused(await client.http.get(path, headers={name: "", "host": "127.0.0.1"}), 403, "permission_denied")
        assert "lamella users setup" in str(error["hint"])
    refused(
        await client.call("POST", "/setup", json={"name": "Eve", "token": FIRST_RUN_TOKEN}, headers={name: "1"}),
        403,
        "permission_denied",
    )


async def test_nginx_as_it_is_shipped_is_told_by_its_version_of_http(client: ServerClient) -> None:
    """It sends no header that says so, and the Host of this machine."""
    place = urlsplit(str(client.http.base_url))
    for target, status in (("HTTP/1.0", b"403"), ("HTTP/1.1", b"200")):
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(f"GET /healthz {target}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).split()[1] == status
        writer.close()


async def test_with_accounts_a_key_is_enough_behind_a_proxy(client: ServerClient) -> None:
    key = await client.set_up()
    headers = {"x-forwarded-for": "203.0.113.7", "authorization": f"Bearer {key}"}
    assert (await client.call("GET", "/conversations", headers=headers)).status_code == 200
