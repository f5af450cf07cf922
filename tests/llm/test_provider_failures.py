"""Whatever a provider does becomes one class of our error tree, with a message and what to do about it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

import pytest

from lamella.core import deltas
from lamella.core.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderRateLimited,
    ProviderRefusedKey,
    ProviderRefusedRequest,
    ProviderStreamBroken,
    ProviderTimeout,
    ProviderUnreachable,
)

from .provider import VENDORS, Provider, ask, connected, context, listen, request_of

pytestmark = pytest.mark.anyio
NAMES = {"anthropic": "Anthropic", "openai": "OpenAI", "responses": "OpenAI"}


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, and what it is to become; `seen` is the text that came before it."""

    fault: dict[str, Any]
    error: type[ProviderError]
    message: str
    hint: str
    seen: str = ""


CASES = {
    "rate limit": Case({"kind": 429, "retry_after": 7}, ProviderRateLimited, "answered 429", "Try again in 7 s."),
    "overloaded": Case({"kind": 529}, ProviderOverloaded, "answered 529: ", "Try again in a moment."),
    "server error": Case({"kind": 500}, ProviderUnreachable, "answered 500: ", "Try again in a moment."),
    "time-out there": Case({"kind": 504}, ProviderTimeout, "answered 504: ", "Try again in a moment."),
    "dropped before": Case({"kind": "drop_before"}, ProviderUnreachable, "can't be reached at http", "Check the net"),
    "dropped at once": Case({"kind": "drop_after", "when": 0}, ProviderStreamBroken, "broke off", "What came is kept"),
    "dropped later": Case(
        {"kind": "drop_after", "when": 5}, ProviderStreamBroken, "broke off", "What came is kept", "01234"
    ),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_fault_is_one_class_of_error(provider: Provider, vendor: str, case: Case) -> None:
    provider.script(r={"text": "0123456789", "chunk": 2, "fault": case.fault})
    heard = await ask(provider.model(vendor))
    assert type(heard.error) is case.error
    assert NAMES[vendor] in heard.error.message
    assert case.message in heard.error.message
    assert str(heard.error.hint).startswith(case.hint)
    assert heard.error.retryable
    assert heard.text() == case.seen
    assert heard.of(deltas.Closed) == []


@pytest.mark.parametrize(
    ("vendor", "error"),
    [("anthropic", ProviderOverloaded), ("openai", ProviderStreamBroken), ("responses", ProviderStreamBroken)],
)
@pytest.mark.parametrize(("when", "seen"), [(0, ""), (5, "01234")])
async def test_an_error_event_ends_the_stream(
    provider: Provider, vendor: str, error: type[ProviderError], when: int, seen: str
) -> None:
    """OpenAI's error objects do not tell an overload from other trouble."""
    provider.script(r={"text": "0123456789", "chunk": 2, "fault": {"kind": "stream_error", "when": when}})
    heard = await ask(provider.model(vendor))
    assert type(heard.error) is error
    assert "Overloaded" in heard.error.message
    assert "What came is kept" in str(heard.error.hint)
    assert heard.text() == seen


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_fault_that_passes_is_gone_the_next_time(provider: Provider, vendor: str) -> None:
    provider.script(r={"text": "ok", "fault": {"kind": 529}})
    model = provider.model(vendor)
    assert (await ask(model)).error is not None
    assert (await ask(model)).text() == "ok"


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_wrong_key(provider: Provider, vendor: str) -> None:
    heard = await ask(provider.model(vendor, key="invalid-secret"))
    assert type(heard.error) is ProviderRefusedKey
    assert f"{NAMES[vendor].upper()}_API_KEY" in str(heard.error.hint)
    assert not heard.error.retryable
    assert "secret" not in str(heard.error.as_dict())


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_unknown_model(provider: Provider, vendor: str) -> None:
    heard = await ask(provider.model(vendor, "nobody"))
    assert type(heard.error) is ProviderRefusedRequest
    assert "nobody" in heard.error.message
    assert "LAMELLA_MODEL" in str(heard.error.hint)
    assert not heard.error.retryable


@pytest.mark.parametrize(
    ("vendor", "name"), [("anthropic", "claude-haiku-4-5"), ("openai", "gpt-4"), ("responses", "gpt-4")]
)
async def test_more_than_the_window_holds(provider: Provider, vendor: str, name: str) -> None:
    heard = await ask(provider.model(vendor, name), "the sea and the sky " * 90_000)
    assert type(heard.error) is ProviderContextOverflow
    assert heard.error.code == "context_length_exceeded"
    assert "maximum" in heard.error.message
    assert "larger window" in str(heard.error.hint)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_request_that_is_refused(provider: Provider, vendor: str) -> None:
    heard = await ask(provider.model(vendor), reply="nobody scripted this")
    assert type(heard.error) is ProviderRefusedRequest
    assert "answered 400: " in heard.error.message
    assert "no reply 'nobody scripted this'" in heard.error.message


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_port_where_nobody_listens(vendor: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    heard = await ask(connected(vendor, url))
    assert type(heard.error) is ProviderUnreachable
    assert url in heard.error.message
    assert heard.deltas == []


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_provider_that_says_nothing(slow_provider: Provider, vendor: str) -> None:
    slow_provider.script(r={"text": "late", "ttft_ms": 5_000})
    heard = await ask(slow_provider.model(vendor, timeout=0.3))
    assert type(heard.error) is ProviderTimeout
    assert heard.error.code == "provider_timeout"


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_provider_that_falls_silent(slow_provider: Provider, vendor: str) -> None:
    slow_provider.script(r={"text": "0123456789", "chunk": 5, "ms": 20_000})
    model = slow_provider.model(vendor, timeout=1.5)
    heard = await listen(model, request_of(model, context(model)), reply="r")
    assert type(heard.error) is ProviderTimeout
    assert heard.of(deltas.Opened) != []


@pytest.mark.parametrize("vendor", ["anthropic", "responses"])
async def test_a_count_that_fails_is_one_of_ours(provider: Provider, vendor: str) -> None:
    model = provider.model(vendor, key="invalid")
    with pytest.raises(ProviderRefusedKey):
        await model.count(request_of(model, context(model)))
    with pytest.raises(ProviderUnreachable):
        await connected(vendor, "http://127.0.0.1:1").count(request_of(model, context(model)))


async def test_a_protocol_without_a_counting_endpoint_says_so(provider: Provider) -> None:
    model = provider.model("openai")
    with pytest.raises(ProviderRefusedRequest, match="can't count") as refused:
        await model.count(request_of(model, context(model)))
    assert not refused.value.retryable
