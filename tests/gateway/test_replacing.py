"""A replaced beginning leaves a body that a vendor takes, in every dialect and at every cut."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import httpx2
import pytest

from lamella.context.choices import EXTRACTS
from lamella.core.json import encode
from lamella.core.records import Replacement, ReplacementKind
from lamella.gateway.dialects import Dialect, ObservedWindow, read
from lamella.gateway.history import SYSTEM_ROLES, History, history_of
from lamella.gateway.replacing import Change, as_sent, change_of, with_change
from lamella.llm.model_table import ModelTable
from lamella_simulator.provider import Provider

from .clients import PATHS, PROSE, tool

Object = dict[str, Any]
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
WIRES = {"messages": Dialect.MESSAGES, "chat": Dialect.CHAT, "responses": Dialect.RESPONSES}
MODELS = {"messages": "claude-opus-5-5", "chat": "gpt-6.1-terra", "responses": "gpt-6.1-terra"}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Talk:
    """A random conversation of one wire, message by message."""

    def __init__(self, wire: str, random: Random) -> None:
        self.wire, self.random, self.messages = wire, random, list[Object]()
        self.calls = 0

    def turn(self) -> None:
        """A message of the user with what follows it."""
        self._ask()
        for _ in range(self.random.randrange(3)):
            self._call(self.random.randrange(1, 4))
        self._say(self._text(), "assistant")

    def ask(self) -> None:
        """A message that waits for its answer."""
        self._ask()

    def _ask(self) -> None:
        if self.wire != "messages" and self.random.random() < 0.2:
            self.messages.append({"role": "developer", "content": f"Mind {self._text()}"})
        self._say(self._text(), "user", picture=self.random.random() < 0.2)
        if self.wire == "messages" and self.random.random() < 0.2:
            self.messages.append({"role": "system", "content": f"Mind {self._text()}"})

    def _text(self) -> str:
        return f"{self.random.randrange(10**6)} “ships” {PROSE * self.random.randrange(1, 4)}"

    def _say(self, text: str, role: str, *, picture: bool = False) -> None:
        if self.wire == "responses":
            kind = "output_text" if role == "assistant" else "input_text"
            parts: list[Object] = [{"type": kind, "text": text}]
            if picture:
                parts.append({"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"})
            self.messages.append({"role": role, "content": parts if picture else text})
        elif picture and self.wire == "messages":
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            content = [{"type": "image", "source": source}, {"type": "text", "text": text}]
            self.messages.append({"role": role, "content": content})
        else:
            self.messages.append({"role": role, "content": text})

    def _call(self, count: int) -> None:
        ids = [f"call_{self.calls + n}" for n in range(count)]
        self.calls += count
        results = [self._text() for _ in ids]
        if self.wire == "messages":
            calls = [{"type": "tool_use", "id": id, "name": "Weather", "input": {"place": id}} for id in ids]
            self.messages.append({"role": "assistant", "content": calls})
            told = zip(ids, results, strict=True)
            found = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in told]
            self.messages.append({"role": "user", "content": found})
        elif self.wire == "chat":
            function = {"name": "Weather", "arguments": '{"place": "here"}'}
            made = [{"id": id, "type": "function", "function": function} for id in ids]
            self.messages.append({"role": "assistant", "content": None, "tool_calls": made})
            pairs = zip(ids, results, strict=True)
            self.messages += ({"role": "tool", "tool_call_id": id, "content": text} for id, text in pairs)
        else:
            made = [{"type": "function_call", "call_id": id, "name": "Weather", "arguments": "{}"} for id in ids]
            pairs = zip(ids, results, strict=True)
            self.messages += made
            self.messages += ({"type": "function_call_output", "call_id": id, "output": text} for id, text in pairs)


def body_of(wire: str, messages: Sequence[Object]) -> Object:
    head: Object = {"model": MODELS[wire], "tools": [tool("Weather", wire)]}
    if wire == "messages":
        return {**head, "max_tokens": 100, "system": "S", "messages": list(messages)}
    if wire == "chat":
        return {**head, "messages": [{"role": "system", "content": "S"}, *messages]}
    return {**head, "instructions": "S", "input": list(messages), "store": False}


def seen(wire: str, body: Object) -> tuple[ObservedWindow, History]:
    window = read(WIRES[wire], body)
    return window, history_of(window, NOON)


def rows_of(history: History, random: Random) -> Iterator[Replacement]:
    """A summary up to one turn, and a pruning up to a later one."""
    cut = random.randrange(1, len(history.turns))
    key = history.keys[history.starts[cut] - 1]
    made = Replacement("rep_1", "", key, ReplacementKind.SUMMARY, NOON, "", texts=("Earlier: “ships”.", "Later."))
    if random.random() < 0.8:
        yield made
    steps = [step.id for turn in history.turns[:-1] for step in turn.steps if step.results]
    if steps:
        yield Replacement("rep_2", "", random.choice(steps), ReplacementKind.PRUNE, NOON, "", numbers={EXTRACTS: 1})


def sent(wire: str, messages: Sequence[Object], rows: Sequence[Replacement]) -> tuple[bytes, Change, History]:
    facts = ModelTable.shipped().facts(MODELS[wire], "anthropic" if wire == "messages" else "openai")
    body = body_of(wire, messages)
    _, history = seen(wire, body)
    change = change_of(history, rows, facts)
    return with_change(encode(body), WIRES[wire], len(history.keys), change), change, history


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seed", range(25))
def test_a_vendor_takes_what_is_replaced_and_nothing_else_changes(provider: Provider, wire: str, seed: int) -> None:
    random = Random(seed)
    talk = Talk(wire, random)
    for _ in range(random.randrange(3, 8)):
        talk.turn()
    talk.ask()
    body = body_of(wire, talk.messages)
    rows = tuple(rows_of(seen(wire, body)[1], random))
    made, change, history = sent(wire, talk.messages, rows)
    base = provider.url if wire == "messages" else provider.openai_url.removesuffix("/v1")
    headers = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}
    with httpx2.Client(base_url=base, headers=headers, trust_env=False, verify=False) as http:
        for one in (encode(body), made):
            answer = http.post(PATHS[wire], content=one, headers={"content-type": "application/json"})
            assert answer.status_code == 200, answer.text
    name = "input" if wire == "responses" else "messages"
    now, then = json.loads(made), json.loads(encode(body))
    assert {key: now[key] for key in now if key != name} == {key: then[key] for key in then if key != name}
    leading = len(body[name]) - len(history.keys)
    kept = [encode(one) for one in body[name][leading + max(change.cut, change.stubbed) :]]
    assert [encode(one) for one in now[name]][len(now[name]) - len(kept) :] == kept
    quoted = [m["content"] for m in body[name][leading : leading + change.cut] if m.get("role") in SYSTEM_ROLES]
    assert all(text.strip() in change.text for text in quoted)
    labels = [segment.label for segment in as_sent(seen(wire, now)[0], WIRES[wire], change).segments]
    assert labels[-1].startswith(f"Message {len(history.keys)} ")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seed", range(10))
def test_what_follows_is_appended_until_another_replacement_is_stored(wire: str, seed: int) -> None:
    random = Random(seed)
    talk = Talk(wire, random)
    for _ in range(6):
        talk.turn()
    talk.ask()
    rows = tuple(rows_of(seen(wire, body_of(wire, talk.messages))[1], random))
    first, change, _ = sent(wire, talk.messages, rows)
    assert sent(wire, talk.messages, rows)[0] == first
    talk._say("An answer", "assistant")
    talk.turn()
    talk.ask()
    name = "input" if wire == "responses" else "messages"
    second = json.loads(sent(wire, talk.messages, rows)[0])[name]
    before = json.loads(first)[name]
    assert json.dumps(second[: len(before)]) == json.dumps(before)
    assert change.made == sent(wire, talk.messages, rows)[1].made


def test_a_turn_that_had_begun_goes_on_without_it() -> None:
    talk = Talk("chat", Random(1))
    for _ in range(3):
        talk.turn()
    talk.ask()
    _, history = seen("chat", body_of("chat", talk.messages))
    key = history.keys[history.starts[1] - 1]
    row = Replacement("rep_1", "", key, ReplacementKind.SUMMARY, NOON, "", texts=("Short.",))
    skipped = Replacement(
        "rep_1", "", key, ReplacementKind.SUMMARY, NOON, "", texts=("Short.",), skipped=(history.turns[-1].id,)
    )
    assert sent("chat", talk.messages, [row])[1].cut
    assert not sent("chat", talk.messages, [skipped])[1].made
    talk._say("An answer", "assistant")
    talk.ask()
    assert sent("chat", talk.messages, [skipped])[1].cut


def test_bound_thinking_that_stays_keeps_what_stands_before_it() -> None:
    facts = ModelTable.shipped().facts("claude-opus-5-5", "anthropic")
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
    messages: list[Object] = []
    for number in range(4):
        messages.append({"role": "user", "content": f"Question {number}"})
        messages.append({"role": "assistant", "content": [thought, {"type": "text", "text": f"Answer {number}"}]})
    messages.append({"role": "user", "content": "And now?"})
    _, history = seen("messages", body_of("messages", messages))
    key, begun = history.keys[history.starts[2] - 1], history.turns[2].id
    row = Replacement("rep_1", "", key, ReplacementKind.SUMMARY, NOON, "", texts=("Short.",), skipped=(begun,))
    assert change_of(history, [row], replace(facts, binds_thinking=False)).cut == history.starts[2]
    assert not change_of(history, [row], replace(facts, binds_thinking=True)).made
