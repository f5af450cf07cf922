"""The /_sim calls, headers, limits and the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella_simulator.settings import Settings
from lamella_simulator.testing import EXACT, InProcess

from .texts import FIVE_MINUTES, Json, at, counters, text, tokens, user

pytestmark = pytest.mark.anyio


async def test_the_log_shows_requests_as_received(provider: InProcess) -> None:
    raw = b'{"model": "claude-opus-5",  "max_tokens": 10, "messages": [{"content": "a", "role": "user"}]}'
    await provider.post("/v1/messages", raw, now=at(0), key="secret")
    await provider.post("/v1/messages", b"{broken")
    listed = (await provider.get("/_sim/requests")).json["requests"]
    assert list(listed[0]["body"]) == ["model", "max_tokens", "messages"]
    assert list(listed[0]["body"]["messages"][0]) == ["content", "role"]
    assert (listed[0]["at"], listed[0]["status"], listed[0]["finished"]) == ("2026-03-01T09:00:00Z", 200, True)
    assert (listed[1]["body"], listed[1]["status"]) == ("{broken", 400)
    assert "secret" not in (await provider.get("/_sim/requests")).text
    assert len((await provider.get("/_sim/requests?last=1")).json["requests"]) == 1


async def test_the_log_knows_the_last_block_that_was_read(provider: InProcess) -> None:
    turns = [user(tokens(10), text(tokens(1_000), FIVE_MINUTES)), {"role": "assistant", "content": "b"}]
    await provider.messages({"messages": turns[:1]}, now=at(0))
    await provider.messages({"messages": [*turns, user(tokens(10))]}, now=at(1))
    await provider.messages({"messages": [*turns, user(tokens(10))]}, now=at(9))
    listed = (await provider.get("/_sim/requests?bodies=no")).json["requests"]
    assert [(one["blocks"], one["hit"]) for one in listed] == [(2, None), (4, 1), (4, None)]
    assert len({one["request_id"] for one in listed}) == 3
    assert not any("body" in one for one in listed)


async def test_the_log_knows_the_price(provider: InProcess) -> None:
    await provider.script(r={"text": "x", "output_tokens": 100})
    body = {"system": [text(tokens(1_000), FIVE_MINUTES)], "messages": [user(tokens(10))]}
    for minute in (0, 1):
        await provider.messages(body, now=at(minute), reply="r")
    costs = [request["cost"] for request in (await provider.get("/_sim/requests")).json["requests"]]
    output = 100 * 25
    assert costs == pytest.approx([(1_000 * 6.25 + 10 * 5 + output) / 1e6, (1_000 * 0.5 + 10 * 5 + output) / 1e6])


async def test_haiku_costs_five_times_as_much_above_its_tier(provider: InProcess) -> None:
    await provider.script(r={"text": "x", "output_tokens": 0})
    for size in (100_000, 100_001):
        await provider.messages({"model": "claude-haiku-5-5", "messages": [user(tokens(size))]}, reply="r")
    small, large = (request["cost"] for request in (await provider.get("/_sim/requests?last=2")).json["requests"])
    assert large / small == pytest.approx(5, rel=1e-3)


async def test_the_log_is_bounded() -> None:
    provider = InProcess(replace(EXACT, keep_requests=3))
    for _ in range(5):
        await provider.messages({"messages": [user("a")]})
    serials = [request["serial"] for request in (await provider.get("/_sim/requests")).json["requests"]]
    assert serials == [3, 4, 5]


async def test_the_clock_stands_until_it_is_moved(provider: InProcess) -> None:
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.post("/_sim/clock", {"now": at(0)})
    await provider.messages(body)
    assert counters((await provider.messages(body)).usage)[0] == 1_000
    moved = await provider.post("/_sim/clock", {"advance_seconds": 301})
    assert moved.json == {"now": "2026-03-01T09:05:01Z", "mode": "virtual"}
    assert counters((await provider.messages(body)).usage)[0] == 0
    assert (await provider.post("/_sim/clock", {"now": "yesterday"})).status == 400
    assert (await provider.messages(body, now="tomorrow")).status == 400


async def test_the_ledger_lists_what_was_written(provider: InProcess) -> None:
    await provider.messages({"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}, now=at(0))
    (entry,) = (await provider.get("/_sim/ledger")).json["entries"]
    assert (entry["tokens"], entry["ttl_seconds"]) == (1_000, 300)
    assert (entry["available_at"], entry["expires"]) == ("2026-03-01T09:00:00Z", "2026-03-01T09:05:00Z")


async def test_reset_forgets_everything(provider: InProcess) -> None:
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    await provider.script(r={"text": "x"})
    first = (await provider.messages(body, reply="r", now=at(0))).json["id"]
    await provider.post("/_sim/reset", {})
    assert (await provider.get("/_sim/ledger")).json == {"entries": []}
    assert (await provider.get("/_sim/requests")).json == {"requests": []}
    assert (await provider.messages(body, reply="r")).status == 400
    await provider.post("/_sim/reset", {})
    await provider.script(r={"text": "x"})
    assert (await provider.messages(body, reply="r", now=at(0))).json["id"] == first


async def test_settings_can_be_changed_by_name(provider: InProcess) -> None:
    assert (await provider.post("/_sim/settings", {"max_markers": 5})).json["max_markers"] == 5
    five = [user(*[text(f"block {index}", FIVE_MINUTES) for index in range(5)])]
    assert (await provider.messages({"messages": five})).status == 200
    assert (await provider.post("/_sim/settings", {"no_such": 1})).status == 400
    assert (await provider.post("/_sim/settings", {"chunk": "many"})).status == 400


async def test_cache_reads_do_not_count_to_the_minute() -> None:
    provider = InProcess(replace(EXACT, input_tokens_per_minute=1_500))
    body = {"cache_control": FIVE_MINUTES, "messages": [user(tokens(1_000))]}
    first = await provider.messages(body, now=at(0))
    assert first.headers["anthropic-ratelimit-input-tokens-remaining"] == "500"
    second = await provider.messages(body, now=at(0, 1))
    assert second.headers["anthropic-ratelimit-input-tokens-remaining"] == "500"
    await provider.messages({"messages": [user(tokens(600, "blue"))]}, now=at(0, 2))
    refused = await provider.messages(body, now=at(0, 3))
    assert (refused.status, refused.json["error"]["type"]) == (429, "rate_limit_error")
    assert float(refused.headers["retry-after"]) == 57
    assert (await provider.messages(body, now=at(1, 3))).status == 200


async def test_openai_counts_cache_reads_to_the_minute() -> None:
    provider = InProcess(replace(EXACT, input_tokens_per_minute=5_000))
    body: Json = {"messages": [{"role": "user", "content": tokens(2_000)}]}
    left = [(await provider.chat(body, now=at(0))).headers["x-ratelimit-remaining-tokens"] for _ in range(2)]
    assert left == ["3000", "1000"]


async def test_every_answer_has_an_id_and_the_limits(provider: InProcess) -> None:
    claude = [await provider.messages({"messages": [user("a")]}), await provider.messages({"messages": []})]
    gpt = [await provider.chat({"messages": [{"role": "user", "content": "a"}]}), await provider.chat({"messages": []})]
    assert [answer.status for answer in (*claude, *gpt)] == [200, 400, 200, 400]
    for answer in claude:
        for limit in ("requests", "input-tokens"):
            assert {f"anthropic-ratelimit-{limit}-{part}" for part in ("limit", "remaining", "reset")} <= set(
                answer.headers
            )
    for answer in gpt:
        for limit in ("requests", "tokens"):
            assert {f"x-ratelimit-{part}-{limit}" for part in ("limit", "remaining", "reset")} <= set(answer.headers)
    ids = [answer.headers["request-id"] for answer in claude] + [answer.headers["x-request-id"] for answer in gpt]
    assert len(set(ids)) == 4
    assert claude[1].json["request_id"] == ids[1]


async def test_requests_per_minute() -> None:
    provider = InProcess(replace(EXACT, requests_per_minute=2))
    statuses = [(await provider.messages({"messages": [user("a")]}, now=at(0))).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_models_answer_in_the_shape_of_the_asker(provider: InProcess) -> None:
    anthropic = (await provider.get("/v1/models", {"anthropic-version": "2026-10-21"})).json
    assert {row["type"] for row in anthropic["data"]} == {"model"}
    openai = (await provider.get("/v1/models")).json
    assert openai["object"] == "list"
    assert "lamella-demo" in {row["id"] for row in openai["data"]} & {row["id"] for row in anthropic["data"]}


async def test_both_key_styles_and_none(provider: InProcess) -> None:
    keyed = {"authorization": "", "x-api-key": "k"}
    assert (await provider.get("/v1/models", keyed)).status == 200
    assert (await provider.get("/v1/models", {"authorization": ""})).status == 401


@pytest.mark.parametrize(
    ("version", "settings", "status"),
    [
        ("2023-06-01", EXACT, 200),
        ("2026-10-21", EXACT, 200),
        ("2020-01-01", EXACT, 400),
        ("", replace(EXACT, require_version=True), 400),
        ("2026-10-21", replace(EXACT, new_version_wants_bearer=True), 401),
        ("2023-06-01", replace(EXACT, new_version_wants_bearer=True), 200),
    ],
)
async def test_versions_of_the_messages_api(version: str, settings: Settings, status: int) -> None:
    provider = InProcess(settings)
    headers = {"x-api-key": "k"} | ({"anthropic-version": version} if version else {})
    body = {"model": "claude-opus-5", "max_tokens": 10, "messages": [user("a")]}
    assert (await provider.post_with(headers, "/v1/messages", body)).status == status


async def test_prices_can_be_set_until_the_reset(provider: InProcess) -> None:
    table = (await provider.get("/_sim/prices")).json
    assert table["claude-opus-5"]["input"] == 5
    mine = {"input": 7, "output": 0, "read": 0, "write_short": 0, "write_long": 0}
    await provider.post("/_sim/prices", {"claude-fable-5-2": mine, "claude-opus-5": mine})
    for model in ("claude-fable-5-2", "claude-opus-5"):
        await provider.messages({"model": model, "messages": [user(tokens(1_000))]})
    log = (await provider.get("/_sim/requests")).json["requests"]
    assert [record["cost"] for record in log] == [pytest.approx(0.007)] * 2
    assert (await provider.post("/_sim/prices", {"claude-opus-5": {"input": 7}})).status == 400
    await provider.post("/_sim/reset", {})
    assert (await provider.get("/_sim/prices")).json == table


async def test_a_count_may_be_off_by_a_share() -> None:
    provider = InProcess(replace(EXACT, count_drift=0.02))
    body = {"messages": [user(tokens(1_000))]}
    counted = (await provider.messages(body, path="/v1/messages/count_tokens")).json
    assert (counted["input_tokens"], (await provider.messages(body)).usage["input_tokens"]) == (1_020, 1_000)
    asked = await provider.responses({"input": tokens(1_000)}, path="/v1/responses/input_tokens")
    assert asked.json["input_tokens"] == 1_020
