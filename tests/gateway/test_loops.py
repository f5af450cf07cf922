"""A client that loops is noticed, shown and, if a setting says so, refused; ordinary programs are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.clock import VirtualClock
from lamella.core.records import Line, LoopAlarm, LoopKind
from lamella.gateway.dialects import Dialect, read
from lamella.gateway.exchange import Exchange, Route
from lamella.gateway.loops import COMPACTIONS, REPEATS, WATCHED, AnsweredRequest, LoopWatch, told
from lamella.gateway.matching import Relation
from lamella.llm.model_table import ModelTable
from lamella.llm.upstream import Upstream
from lamella.server.testing import ServerClient, served
from lamella_simulator.provider import Provider

from .clients import PROSE, Client
from .conftest import settings_of

pytestmark = pytest.mark.anyio
Object = dict[str, Any]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WIRES = pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
FACTS = ModelTable.shipped().facts("gpt-6.1-terra", "openai")
ROUTE = Route(Upstream("it", "", 1.0), "", "", "gpt-6.1-terra", "account", FACTS, Dialect.CHAT)
IDS = count()


def seen(
    texts: list[str], at: float, *, takes: float = 0.1, relation: Relation = Relation.NEXT, line: str = "line",
    said: str = "", status: int = 200, session: str | None = "s",
) -> AnsweredRequest:  # fmt: skip
    """A request of these messages, `at` seconds after noon, that was answered after `takes` seconds."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    window = read(Dialect.CHAT, {"tools": [{"name": "look"}], "messages": messages})
    begun = NOON + timedelta(seconds=at)
    exchange = Exchange(LOCAL_OWNER, Dialect.CHAT, "a client", session, ROUTE, b"", begun, status=status)
    found = Line(
        id=line, client="a client", session=session, dialect=Dialect.CHAT, label="conversation", model="m", opening=1,
        keys=window.keys, tip=window.keys[-1], system=window.system, answer="", request_id=f"r{next(IDS)}",
        turn_id="t", run_id="u", begun_at=NOON, at=begun,
    )  # fmt: skip
    return AnsweredRequest(exchange, window, relation, found, said, 0.01, begun + timedelta(seconds=takes))


def summary(number: int) -> str:
    return f"Summary {number}: {PROSE}"


def compacting(times: int, between: int = 0) -> Iterator[AnsweredRequest]:
    """A client that asks, compacts, and asks with the summary, so many times, after `between` more steps."""
    texts, at, relation = ["What is in the log of the lighthouse?"], 0.0, Relation.NEW
    for number in range(times):
        for step in range(between + 1):
            yield seen(texts, at, relation=relation, said=f"Answer {number}.{step}: {PROSE[:60]}")
            relation = Relation.NEXT
            texts, at = [*texts, f"Answer {number}.{step}", f"Result {number}.{step}"], at + 1
        yield seen([*texts[:-1], "Summarise all that was said."], at, said=summary(number))
        texts, at = [f"This goes on from an earlier conversation.\n{summary(number)}"], at + 1
        relation = Relation.REWRITTEN
    yield seen(texts, at, relation=Relation.REWRITTEN)


def test_a_line_that_is_compacted_again_and_again_is_alarmed_with_its_figures() -> None:
    watch = LoopWatch()
    found = [watch.note(one) for one in compacting(COMPACTIONS + 2)]
    assert all(alarm is None for alarm in found[: 2 * COMPACTIONS])
    assert all(alarm is not None and alarm.kind is LoopKind.COMPACTED for alarm in found[2 * COMPACTIONS :])
    newest = found[-1]
    assert newest is not None
    assert (newest.times, newest.requests) == (COMPACTIONS + 2, 2 * (COMPACTIONS + 2) - 1)
    assert newest.cost == pytest.approx(0.01 * newest.requests)
    assert told(newest).startswith("This client loops: it compacted its conversation 7 times within 12 s (13 requests")


def test_a_client_that_works_between_its_compactions_is_not() -> None:
    watch = LoopWatch()
    assert [alarm for one in compacting(40, between=2) if (alarm := watch.note(one))] == []


def test_an_alarm_ends_when_the_line_grows_or_is_silent() -> None:
    watch = LoopWatch()
    for one in compacting(COMPACTIONS):
        watch.note(one)
    now = NOON + timedelta(seconds=12)
    assert watch.alarm(LOCAL_OWNER.user_id, "line", now) is not None
    assert watch.alarm(LOCAL_OWNER.user_id, "line", now + timedelta(minutes=1)) is None
    texts = [f"{summary(COMPACTIONS - 1)}"]
    grown: list[LoopAlarm | None] = []
    for step in range(4):
        texts = [*texts, f"Answer {step}", f"Result {step}"]
        grown.append(watch.note(seen(texts, 13 + step)))
    assert [alarm is not None for alarm in grown] == [True, True, False, False]
    assert watch.alarm(LOCAL_OWNER.user_id, "line", NOON + timedelta(seconds=17)) is None


def test_the_same_messages_more_than_sixty_times_a_minute_are_a_loop_and_sixty_are_not() -> None:
    watch = LoopWatch()
    slow = [
        watch.note(seen(["Hi", "Ho", "And?"], n * 60 / REPEATS + 0.01, relation=Relation.AGAIN)) for n in range(200)
    ]
    assert slow == [None] * 200
    fast = [watch.note(seen(["Hi", "Ho", "So?"], 300 + n * 0.5, relation=Relation.AGAIN)) for n in range(REPEATS + 10)]
    assert [alarm is not None for alarm in fast] == [False] * REPEATS + [True] * 10
    newest = fast[-1]
    assert newest is not None
    assert (newest.kind, newest.times) == (LoopKind.REPEATED, REPEATS + 10)
    assert "sent the same messages 70 times within 35 s" in told(newest)


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param(
            [seen([f"Text {m}" for m in range(2 * n + 1)], n * 0.1) for n in range(200)],
            id="a fast tool loop",
        ),
        pytest.param(
            [seen([f"Is text {n} friendly?"], n * 0.1, relation=Relation.NEW, line=f"l{n}") for n in range(300)],
            id="a classifier or a batch",
        ),
        pytest.param(
            [
                seen([f"Shorter: Answer {n - 1}: {PROSE}"] + ["Yes", "Go on"] * step, n * 30 + step, session=None,
                     relation=Relation.NEXT if step else Relation.NEW, line=f"l{n}", said=f"Answer {n}: {PROSE}")
                for n in range(40) for step in range(3)
            ],
            id="chats that begin with an answer of the chat before",
        ),
        pytest.param(
            [seen(["Hi"], n * 0.01, takes=5.0, relation=Relation.AGAIN) for n in range(300)], id="samples of one prompt"
        ),
        pytest.param(
            [seen(["Hi"], n * 0.1, relation=Relation.AGAIN, status=529) for n in range(300)], id="retries after 529"
        ),
        pytest.param(
            [seen(["Hi"], n * 0.1, relation=Relation.AGAIN, status=429) for n in range(300)], id="retries after 429"
        ),
        pytest.param(
            [seen([f"Result {n}", f"Answer {n}", "On"], n * 0.1, relation=Relation.REWRITTEN) for n in range(300)],
            id="an agent that leaves out its oldest messages",
        ),
    ],
)  # fmt: skip
def test_ordinary_programs_are_not_alarmed(requests: list[AnsweredRequest]) -> None:
    watch = LoopWatch()
    assert [one for request in requests if (one := watch.note(request))] == []


def test_what_is_watched_is_bounded() -> None:
    watch = LoopWatch()
    for n in range(WATCHED + 50):
        for repeat in range(2):
            watch.note(seen([f"Text {n}"], n + repeat * 0.2, line=f"line {n}"))
        watch.is_news(f"line {n}", NOON)
    assert len(watch._trails) == len(watch._repeats) == len(watch._told) == WATCHED


class Looping:
    """A client whose limit is below its fixed prompt: it asks, compacts, and asks with the summary."""

    def __init__(self, wire: str, http: Any, session: str | None = "session-1") -> None:
        self._http, self._headers = http, {"x-session-id": session} if session else {}
        self._talking, self._asking = Client(wire, headers=self._headers), Client(wire, headers=self._headers)
        self._next = "What is in the log of the lighthouse?"

    async def around(self) -> None:
        """A turn and a compaction."""
        self._talking.history.clear()
        await self._talking.send(self._http, self._next)
        self._asking.tools, self._asking.history = [], list(self._talking.history)
        said = await self._asking.send(self._http, "Write a summary of all that was said, for whoever goes on.")
        self._next = f"This goes on from an earlier conversation.\n\n{said['text']}"


@pytest.mark.parametrize("session", ["session-1", None])
@WIRES
async def test_a_looping_client_is_shown_on_its_line_and_logged_once(
    app: App, client: ServerClient, wire: str, session: str | None
) -> None:
    looping = Looping(wire, client.http, session)
    with capture_logs() as logged:
        for _ in range(COMPACTIONS + 4):
            await looping.around()
            await app.gateway.recorder.drain()
    found = (await client.get("/lines"))["data"]
    alarms = [line["alarm"] for line in found if line["alarm"] and line["alarm"]["active"]]
    assert len(alarms) == 1, [line["requests"] for line in found]
    assert alarms[0]["kind"] == "compacted"
    assert "it compacted its conversation" in alarms[0]["text"]
    assert [one["event"] for one in logged].count("a client loops") == 1


@WIRES
async def test_a_looping_client_without_a_session_is_refused_and_others_are_not(
    provider: Provider, tmp_path: Path, wire: str
) -> None:
    settings = settings_of(provider.url, provider.openai_url, tmp_path).model_copy(update={"gateway_loops": "refuse"})
    async with served(settings, clock=VirtualClock(NOON)) as (app, client):
        looping = Looping(wire, client.http, None)
        with pytest.raises(AssertionError, match="This client loops: it compacted its conversation"):
            await until_refused(looping, app, 4 * COMPACTIONS)
        await Client(wire).send(client.http, "What is in the log of the harbour?")
        await app.gateway.recorder.drain()
        alarms = [line["alarm"] for line in (await client.get("/lines"))["data"] if line["alarm"]]
        assert [alarm["refused"] for alarm in alarms if alarm["active"]] == [1]


async def until_refused(looping: Looping, app: App, times: int = COMPACTIONS) -> None:
    for _ in range(times):
        await looping.around()
        await app.gateway.recorder.drain()


@WIRES
async def test_by_setting_a_looping_client_is_refused_until_it_stops(
    provider: Provider, tmp_path: Path, wire: str
) -> None:
    settings, clock = settings_of(provider.url, provider.openai_url, tmp_path), VirtualClock(NOON)
    async with served(settings.model_copy(update={"gateway_loops": "refuse"}), clock=clock) as (app, client):
        looping, other = Looping(wire, client.http), Client(wire, headers={"x-session-id": "session-2"})
        for _ in range(COMPACTIONS):
            await looping.around()
            await app.gateway.recorder.drain()
        with pytest.raises(AssertionError, match="This client loops"):
            await until_refused(looping, app)
        reached = len(provider.requests)
        looping._talking.history[1:] = []
        body, path = json.dumps(looping._talking.body()), {"messages": "/v1/messages"}.get(wire)
        path = path or ("/v1/chat/completions" if wire == "chat" else "/v1/responses")
        headers = {"x-session-id": "session-1", "content-type": "application/json", "user-agent": "a-client/1.0"}
        refused = await client.http.post(path, content=body, headers=headers)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
        assert "This client loops: it compacted its conversation" in refused.json()["error"]["message"]
        assert len(provider.requests) == reached
        await other.send(client.http, "Hello there")
        await app.gateway.recorder.drain()
        alarms = {line["session"]: line["alarm"] for line in (await client.get("/lines"))["data"] if line["alarm"]}
        assert {session: alarm["refused"] for session, alarm in alarms.items()} == {"session-1": 2}
        clock.advance(60)
        assert (await client.http.post(path, content=body, headers=headers)).status_code == 200
