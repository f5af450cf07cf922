"""A provider is spoken to with the configured key and nothing else that the environment may hold."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from lamella.llm.streaming import http_client

from .provider import VENDORS, connected, context, listen, request_of
from .raw_server import answering, http

pytestmark = pytest.mark.anyio
ENVIRONMENT = {
    "ANTHROPIC_AUTH_TOKEN": "stolen-1",
    "ANTHROPIC_API_KEY": "stolen-2",
    "ANTHROPIC_CUSTOM_HEADERS": "authorization: Bearer stolen-3\nx-api-key: stolen-4\nX-Team: sea",
    "OPENAI_API_KEY": "stolen-5",
    "OPENAI_ADMIN_KEY": "stolen-6",
    "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer stolen-7\nX-Api-Key: stolen-8\nX-Team: sea",
}


def credentials(head: bytes) -> list[bytes]:
    """The header lines of a request that can carry a key."""
    names = (b"authorization:", b"x-api-key:", b"api-key:", b"proxy-authorization:", b"cookie:")
    return [line for line in head.split(b"\r\n") if line.lower().startswith(names)]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("key", ["the-key", "no-key"])
async def test_only_the_given_key_is_sent(vendor: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    received: list[bytes] = []
    async with answering(http(500, b"null"), received) as url:
        model = connected(vendor, url, key=key)
        await listen(model, request_of(model, context(model)))
        await model.close()
    assert [line.lower() for line in credentials(received[0])] == [b"authorization: bearer " + key.encode()]
    assert b"stolen" not in received[0]
    assert b"sea" in received[0]


async def test_a_redirect_elsewhere_gets_no_key() -> None:
    received: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        received.append(request)
        if request.url.host == "api.example":
            return httpx2.Response(307, headers={"location": "https://other.example/v1"})
        return httpx2.Response(200)

    def usual(**options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), follow_redirects=True, **options)

    async with http_client(usual, "https://api.example/v1", "the-key", 5.0) as client:
        await client.post("https://api.example/v1/messages", headers={"x-api-key": "stolen"})
    keys = [(request.headers.get("authorization"), request.headers.get("x-api-key")) for request in received]
    assert keys == [("Bearer the-key", None), (None, None)]
