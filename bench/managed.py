"""What a long conversation costs whose client sends its whole history with every request, and Lamella shortens it.

    python bench/managed.py [--kinds words log …] [--models gpt-5.6 …] [--turns 60] [--seed 1] [--json]

The conversations are those of `bench/economics.py`: 60 turns of two requests, 36 facts. `pays` is the engine with
`compaction_when=pays`. In the other rows a client keeps the history itself and sends all of it through the gateway:
`managed` with the header `X-Lamella-Context: manage`, `sends everything` without. Costs are in thousands of the price
of an input token, summaries included: `input` is all input, `with output` adds what the summaries' output costs.
`ratio` is the cost with output, of that of `pays`. A fact counts as there if its sentence is in the last request
upstream, word for word. `prefix kept` are the requests that begin with all blocks of the request before, of those
between which nothing was replaced.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import httpx2
import structlog

from economics import PAYS, Bench, strings
from lamella.app.app import LOCAL_OWNER, App
from lamella.core.clock import VirtualClock
from lamella.core.ids import CountingIds
from lamella.core.records import PageQuery, RequestRecord
from lamella.core.tokens import Usage
from lamella.llm.model_table import ModelTable
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella_lab.replay.environment import ReplayEnvironment
from lamella_lab.trace.reader import parse_trace
from tables import arguments, emit, show
from writing import identifiers
from writing.parts import Json

WIRES = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}


@dataclass(frozen=True, slots=True)
class Row:
    """One run of one conversation."""

    text: str
    model: str
    run: str
    requests: int
    summaries: int
    prunings: int
    input: float
    with_output: float
    last: int
    facts: int
    of: int
    kept: str
    ratio: float = 0.0


class ResendingClient:
    """A client of one wire, which sends everything it has heard again."""

    def __init__(self, wire: str, model: str, trace: Json) -> None:
        self.wire, self.model, self.trace = wire, model, trace
        self.history: list[Json] = []

    def body(self) -> Json:
        """The next request."""
        tools = [self._tool(tool) for tool in self.trace["tools"]]
        body: Json = {"model": self.model, "tools": tools}
        system = self.trace["system"]
        if self.wire == "messages":
            return {**body, "max_tokens": 16_000, "system": system, "messages": self.history}
        if self.wire == "chat":
            return {**body, "messages": [{"role": "system", "content": system}, *self.history]}
        return {**body, "instructions": system, "input": self.history, "store": False}

    def _tool(self, tool: Json) -> Json:
        schema = tool["input_schema"]
        if self.wire == "messages":
            return {"name": tool["name"], "description": tool["description"], "input_schema": schema}
        function = {"name": tool["name"], "description": tool["description"], "parameters": schema}
        return {"type": "function", "function": function} if self.wire == "chat" else {"type": "function", **function}

    def hear(self, answer: Json) -> None:
        """Keep an answer as the wire wants it back."""
        if self.wire == "messages":
            self.history.append({"role": "assistant", "content": answer["content"]})
        elif self.wire == "chat":
            self.history.append(answer["choices"][0]["message"])
        else:
            self.history += answer["output"]

    def say(self, text: str) -> None:
        """Add a message of the user."""
        self.history.append({"role": "user", "content": text})

    def give(self, calls: Sequence[Json]) -> None:
        """Add the results of calls."""
        if self.wire == "messages":
            results = [{"type": "tool_result", "tool_use_id": one["id"], "content": one["result"]} for one in calls]
            self.history.append({"role": "user", "content": results})
        elif self.wire == "chat":
            self.history += ({"role": "tool", "tool_call_id": one["id"], "content": one["result"]} for one in calls)
        else:
            kind = "function_call_output"
            self.history += ({"type": kind, "call_id": one["id"], "output": one["result"]} for one in calls)


class Through:
    """Plays conversations through the gateway, each on a server of its own."""

    def __init__(self, ground: ReplayEnvironment) -> None:
        self._ground = ground

    async def play(self, wire: str, model: str, trace: Json, context: str) -> tuple[list[RequestRecord], list[bytes]]:
        """The requests as they were recorded, and the bodies as they went upstream."""
        whole = {**trace, "account": {"provider": "anthropic" if wire == "messages" else "openai"}, "model": model}
        url = await self._ground.prepare(parse_trace(json.dumps({"lamella_trace": 1, **whole}).encode()))
        clock = VirtualClock(datetime.fromisoformat(trace["turns"][0]["at"]))
        asked = 0

        def headers(turn_id: str, purpose: str, number: int) -> Mapping[str, str]:
            nonlocal asked
            asked += 1
            return {"x-sim-reply": f"0/0/summary/{asked - 1}", "x-sim-now": clock.now().isoformat()}

        with tempfile.TemporaryDirectory() as folder:
            settings = read_settings(
                data=Path(folder),
                anthropic_api_key="sk-any",
                anthropic_base_url=url,
                openai_api_key="sk-any",
                openai_base_url=f"{url}/v1",
            )
            async with served(settings, clock=clock, ids=CountingIds(), headers=headers) as (app, client):
                client.http.headers["x-lamella-context"] = context
                await self._play(app, client.http, clock, ResendingClient(wire, model, trace))
                records = await _records(app)
        async with httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False, verify=False) as http:
            log = (await http.get("/_sim/requests")).json()["requests"]
        return records, [json.dumps(one["body"], ensure_ascii=False).encode() for one in log]

    async def _play(self, app: App, http: httpx2.AsyncClient, clock: VirtualClock, client: ResendingClient) -> None:
        for number, turn in enumerate(client.trace["turns"], 1):
            clock.set(datetime.fromisoformat(turn["at"]))
            client.say(turn["user"])
            for step, said in enumerate(turn["steps"]):
                named = {"x-sim-now": clock.now().isoformat(), "x-sim-reply": f"{number}/0/chat/{step}"}
                answer = await http.post(WIRES[client.wire], json=client.body(), headers=named)
                if answer.is_error:
                    raise SystemExit(f"turn {number}: {answer.text[:500]}")
                client.hear(answer.json())
                clock.advance(said["ms"] / 1_000)
                if said.get("tool_calls"):
                    client.give(said["tool_calls"])
                    clock.advance(max(call["ms"] for call in said["tool_calls"]) / 1_000)
            await settled(app)


async def settled(app: App) -> None:
    """Wait until all is recorded, and no summary is being made."""
    for _ in range(3):
        await app.gateway.recorder.drain()
        await app.gateway.managed.settle()


async def _records(app: App) -> list[RequestRecord]:
    [line] = (await app.store.lines.lines(LOCAL_OWNER, PageQuery())).data
    found: list[RequestRecord] = []
    query = PageQuery(limit=100, order="asc")
    while True:
        page = await app.store.turns.turns(LOCAL_OWNER, line.id, query)
        for turn in page.data:
            found += await app.store.requests.requests(LOCAL_OWNER, turn.id)
        if not page.has_more:
            return found
        query = PageQuery(limit=100, order="asc", after=page.data[-1].id)


def prefix_kept(records: Sequence[RequestRecord]) -> str:
    """How many requests begin with the blocks of the one before, of those whose messages no replacement changed."""
    chat = [one for one in records if one.purpose == "chat"]
    same = [(before, now) for before, now in pairwise(chat) if before.notes == now.notes]
    kept = sum(_blocks(now)[: len(_blocks(before))] == _blocks(before) for before, now in same)
    return f"{kept} of {len(same)}"


def _blocks(record: RequestRecord) -> list[str]:
    return [digest for segment in record.segments for digest in segment.blocks]


def row_of(
    name: tuple[str, str, str], records: Sequence[RequestRecord], bodies: Sequence[bytes], notes: Sequence[str]
) -> Row:
    """The figures of a run: `name` is its text, its model and what it is called."""
    model = name[1]
    facts = ModelTable.read(None).facts(model, "anthropic" if model.startswith("claude") else "openai")
    unit = facts.price.input / 1_000_000
    spent = sum(facts.input_cost(one.usage or Usage()) for one in records) / unit / 1_000
    side = [one for one in records if one.purpose == "summary"]
    output = sum((one.usage or Usage()).output for one in side) * facts.price.output / facts.price.input / 1_000
    shown = "\n".join(strings(json.loads(bodies[-1])))
    chat = [one for one in records if one.purpose == "chat"]
    kinds = [note for one in chat for note in one.notes]
    return Row(
        *name,
        len(records),
        len(side),
        len({text for _, text in kinds if text.startswith("pruned")}),
        spent,
        spent + output,
        (chat[-1].usage or Usage()).input,
        sum(note in shown for note in notes),
        len(notes),
        prefix_kept(records),
    )


async def measure(options: Namespace) -> list[Row]:
    """Every model with every kind of text."""
    ground, found = ReplayEnvironment(), list[Row]()
    try:
        for model in options.models:
            for kind in options.kinds:
                found += await measure_one(ground, model, kind, options)
    finally:
        await ground.close()
    return found


_SHARED = (
    "text", "run", "requests", "summaries", "prunings", "input", "with_output", "last", "facts", "of",
)  # fmt: skip


async def measure_one(ground: ReplayEnvironment, model: str, kind: str, options: Namespace) -> list[Row]:
    """One model with one kind of text."""
    facts = options.turns * identifiers.FACTS // identifiers.TURNS
    notes = identifiers.told(identifiers.KINDS[kind], options.seed, facts)
    trace = identifiers.trace(kind, options.seed, options.turns, facts, search=False, **PAYS)
    bill = await Bench(ground, model).bill(kind, "pays", trace, notes)
    found = [Row(**{**{name: getattr(bill, name) for name in _SHARED}, "model": model, "kept": "", "ratio": 1.0})]
    for wire in ["messages"] if model.startswith("claude") else ["responses", "chat"]:
        for context in ("off", "manage"):
            name = f"{wire}, {'managed' if context == 'manage' else 'sends everything'}"
            records, bodies = await Through(ground).play(wire, model, trace, context)
            made = row_of((kind, model, name), records, bodies, notes)
            found.append(replace(made, ratio=made.with_output / bill.with_output))
    return found


def rows(found: Sequence[Row]) -> list[list[str]]:
    """A line for each run."""
    counted = ["requests", "summaries", "prunings"]
    made = [["text", "model", "run", *counted, "input", "with output", "ratio", "last", "facts", "prefix kept"]]
    for one in found:
        counts = [str(n) for n in (one.requests, one.summaries, one.prunings)]
        costs = [f"{one.input:.0f}", f"{one.with_output:.0f}", f"{one.ratio:.3f}", f"{one.last:,}"]
        made.append([one.text, one.model, one.run, *counts, *costs, f"{one.facts} of {one.of}", one.kept])
    return made


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="+", default=["gpt-5.6", "claude-opus-5-5"])
    parser.add_argument("--kinds", nargs="+", choices=identifiers.KINDS, default=["words", "log"])
    parser.add_argument("--turns", type=int, default=identifiers.TURNS, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found = asyncio.run(measure(options))
    if options.json:
        emit([asdict(one) for one in found])
    else:
        show(rows(found))


if __name__ == "__main__":
    main()
