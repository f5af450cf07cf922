"""Before accounts are set up nobody is let in through a proxy: it may send the Host of this machine for strangers."""

from __future__ import annotations

import pytest

from lamella.server.testing import Client

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
]


@pytest.mark.parametrize("name", FORWARDING)
async def test_a_request_through_a_proxy_is_refused_while_no_key_is_needed(client: Client, name: str) -> None:
    for path in ("/", "/api/v1/conversations", "/healthz"):
        error = refused(await client.http.get(path, headers={name: "", "host": "127.0.0.1"}), 403, "permission_denied")
        assert "lamella users setup" in str(error["hint"])
    refused(await client.call("POST", "/setup", json={"name": "Eve"}, headers={name: "1"}), 403, "permission_denied")


async def test_with_accounts_a_key_is_enough_behind_a_proxy(client: Client) -> None:
    key = (await client.post("/setup", {"name": "Ann"}))["key"]["secret"]
    headers = {"x-forwarded-for": "203.0.113.7", "authorization": f"Bearer {key}"}
    assert (await client.call("GET", "/conversations", headers=headers)).status_code == 200
