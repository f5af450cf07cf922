"""What the /_sim calls refuse: each error says what was wrong and what to send instead, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from lamella_simulator.admin import MOST_BYTES
from lamella_simulator.testing import InProcess

from .texts import user

pytestmark = pytest.mark.anyio

REFUSED: dict[str, tuple[str, Any, str]] = {
    "no JSON": ("replies", b"{broken", "not JSON"),
    "no body": ("faults", b"", "not JSON"),
    "a list for an object": ("replies", [], "Expected `object`, got `array`"),
    "an object for a list": ("faults", {"kind": 529}, "Expected `array`, got `object`"),
    "a field of a reply that there is not": ("replies", {"r": {"txt": "a"}}, "unknown field `txt`"),
    "a pattern that is none": ("replies", {"r": {"match": "("}}, "not a regular expression"),
    "a length below nothing": ("replies", {"r": {"output_tokens": -1}}, ">= 0"),
    "a fault that there is not": ("faults", [{"kind": "earthquake"}], "stream_error"),
    "a fault that never happens": ("faults", [{"kind": 529, "times": 0}], ">= 1"),
    "a place before the first character": ("faults", [{"kind": "drop_after", "when": -1}], ">= 0"),
    "a patience below nothing": ("faults", [{"kind": 429, "retry_after": -1}], "retry_after"),
    "a price below nothing": ("prices", {"claude-opus-5": {"input": -1, "output": 0}}, ">= 0"),
    "half a row of prices": ("prices", {"claude-opus-5": {"input": 1}}, "missing required field"),
    "a price that there is not": (
        "prices",
        {"claude-opus-5": {"input": 1, "output": 1, "read": 1, "write_short": 1, "write_long": 1, "cached": 1}},
        "unknown field `cached`",
    ),
    "prices of nobody": (
        "prices",
        {"claud-opus": {"input": 1, "output": 1, "read": 1, "write_short": 1, "write_long": 1}},
        "no such model: claud-opus",
    ),
    "an odd time": ("clock", {"now": "yesterday"}, "ISO 8601"),
    "no time": ("clock", {}, "advance_seconds"),
    "a time that no calendar has": ("clock", {"advance_seconds": 1e300}, "year"),
    "a field of the clock that there is not": ("clock", {"advance": 5}, "unknown field `advance`"),
    "a setting that there is not": ("settings", {"lookback": 20}, "no such option: lookback"),
    "one that is spelt almost right": ("settings", {"max_marker": 5}, "max_markers"),
    "a setting of the wrong type": ("settings", {"max_markers": "many"}, "max_markers"),
    "a share of more than all": ("settings", {"eviction_rate": 5}, "<= 1"),
    "no tokens at all": ("settings", {"token_factor": 0}, "token_factor"),
    "another clock": ("settings", {"clock": "system"}, "--clock"),
    "a tokenizer that is not there": ("settings", {"engine_tokenizer": "/nowhere.json"}, "/nowhere.json"),
}


@pytest.mark.parametrize(("call", "body", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_refused_call(provider: InProcess, call: str, body: Any, words: str) -> None:
    calls = ("faults", "prices", "clock", "settings")
    before = [(await provider.get(f"/_sim/{name}")).json for name in calls]
    answer = await provider.post(f"/_sim/{call}", body)
    assert answer.status == 400
    assert words in answer.json["error"]
    assert [(await provider.get(f"/_sim/{name}")).json for name in calls] == before


@pytest.mark.parametrize("last", ["0", "-1", "many", "1.5"])
async def test_an_odd_number_of_requests(provider: InProcess, last: str) -> None:
    answer = await provider.get(f"/_sim/requests?last={last}")
    assert (answer.status, "last" in answer.json["error"]) == (400, True)


async def test_a_body_without_end(provider: InProcess) -> None:
    answer = await provider.post("/_sim/replies", b" " * (MOST_BYTES + 1))
    assert (answer.status, str(MOST_BYTES) in answer.json["error"]) == (413, True)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("POST", "/_sim/reply", 404, "/_sim/replies"),
        ("GET", "/_sim/reset", 405, "POST"),
        ("POST", "/v1/messages/batches", 404, "not simulated"),
        ("GET", "/v1/responses/resp_1", 404, "not simulated"),
        ("GET", "/v1/messages", 405, "POST"),
    ],
)
async def test_a_path_that_there_is_not(provider: InProcess, method: str, path: str, status: int, words: str) -> None:
    """On the vendors' paths the error has their shape, so that their SDKs show its words."""
    answer = await (provider.get(path) if method == "GET" else provider.post(path, {}))
    assert answer.status == status
    error = answer.json["error"]
    assert words in (error if path.startswith("/_sim/") else error["message"])


async def test_a_default_reply_that_nobody_scripted_is_named(provider: InProcess) -> None:
    await provider.post("/_sim/settings", {"default_reply": "ghost"})
    answer = await provider.messages({"messages": [user("a")]})
    assert (answer.status, answer.error) == (400, "default_reply: no reply 'ghost' was scripted")


@pytest.mark.parametrize("rate", ["fast", "-1", "nan"])
async def test_an_odd_pace(provider: InProcess, rate: str) -> None:
    headers = {"authorization": "Bearer k", "x-sim-rate": rate}
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [user("a")]}
    assert (await provider.post_with(headers, "/v1/messages", body)).error.startswith("x-sim-rate")
