"""A provider is spoken to with the configured key and nothing else that the environment may hold."""

from __future__ import annotations

from typing import Any

import pytest

from lamella.app.providers import Providers
from lamella.core.errors import ConfigurationError
from lamella.settings import Settings, read_settings

from .provider import MAKERS, TABLE, USUAL, VENDORS, connected, context, listen, request_of
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
        base_url = f"{url}/v1" if MAKERS[vendor] == "openai" else url
        given: dict[str, Any] = {f"{MAKERS[vendor]}_api_key": key, f"{MAKERS[vendor]}_base_url": base_url}
        given["openai_api"] = "responses" if vendor == "responses" else "chat"
        providers = Providers(Settings(**given, provider_retries=0), TABLE)
        model = (await providers.open(USUAL[vendor])).model
        await listen(model, request_of(model, context(model)))
        await providers.close()
    assert [line.lower() for line in credentials(received[0])] == [b"authorization: bearer " + key.encode()]
    assert b"stolen" not in received[0]
    assert b"sea" in received[0]


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_redirect_elsewhere_gets_nothing(vendor: str) -> None:
    received: list[bytes] = []
    async with answering(http(200, b""), received) as other, answering(http(307, b"", location=other)) as url:
        model = connected(vendor, url, key="the-key")
        heard = await listen(model, request_of(model, context(model)))
        await model.close()
    assert heard.error is not None
    assert "answered 307" in heard.error.message
    assert "what answers there is not the provider" in str(heard.error.hint)
    assert received == []


@pytest.mark.parametrize("text", ["no header", "a b: c", ": c", "x-tïde: 1"])
def test_a_line_that_is_no_header_stops_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", text)
    with pytest.raises(ConfigurationError, match="each line must be an ASCII header") as raised:
        read_settings()
    assert text not in str(raised.value.as_dict())
