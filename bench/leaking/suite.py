"""Plays attacks through real turns of a server, and looks for canaries in everything that leaves it."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from structlog.testing import capture_logs

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import GrantLevel
from lamella.core.json import encode_text
from lamella.core.messages import ToolCall
from lamella.knowledge.restricted.searching import RestrictedBase, RestrictedQuestion
from lamella.llm.scripted import ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import Object, ServerClient, served
from lamella.settings import read_settings
from lamella.tools.knowledge_base_search import NAME
from leaking.attacks import Attack, attack
from leaking.harmless import HARMLESS
from leaking.restricted_base import ANN, add, grant, reply, restricted_base, second_model, stored_elsewhere
from leaking.secrets import Secret, secret

ROUND = 10
"""Attacks on one base, one of each kind, in one conversation."""


@dataclass(slots=True)
class Outcome:
    """What came of a suite: attacks by kind, how they ended, and every canary that left, with where it was found."""

    seed: int
    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    looked_at: int = 0
    """Characters that left."""

    harmless: int = 0
    unchanged: int = 0
    changed: list[str] = field(default_factory=list)

    @property
    def attacks(self) -> int:
        """All attacks."""
        return sum(self.kinds.values())

    @property
    def usefulness(self) -> float:
        """The share of harmless summaries that passed unchanged."""
        return self.unchanged / self.harmless if self.harmless else 0.0


@dataclass(frozen=True, slots=True)
class Playback:
    """A server with a restricted base, its main model, and the second one."""

    app: App
    client: ServerClient
    model: ScriptedModel
    second: ScriptedModel
    outcome: Outcome


def plain(text: str) -> str:
    """A text as canaries are looked for in it: without case, and with one blank for each white space."""
    return re.sub(r"\s+", " ", text).casefold()


def found_in(what: str, text: str, canaries: Sequence[str]) -> Iterator[str]:
    """Each canary that stands in a text, as it is or as JSON writes it."""
    left = plain(text)
    for canary in dict.fromkeys(canaries):
        if plain(canary) in left or ("\\" in canary and plain(encode_text(canary)[1:-1]) in left):
            yield f"“{canary[:80]}” in {what}"


async def play(seed: int, attacks: int, *, level: GrantLevel = GrantLevel.RESTRICTED, harmless: int = 40) -> Outcome:
    """Play so many attacks. With another `level` than `restricted` the suite shows that it finds what leaves."""
    outcome, chosen = Outcome(seed), Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = stack.enter_context(capture_logs())
        model, second = ScriptedModel(), second_model()
        given = read_settings(
            data=folder,
            restricted_model="second",
            restricted_answers_per_day=0,
            restricted_short_answers_per_day=0,
            log_llm_requests=True,
            provider_retries=0,
            titles=False,
            debounce_ms=0,
            knowledge_summaries=False,  # an owner's model reads the documents for them, beside all turns
        )
        canaries: list[str] = []
        async with served(given, checked=False, models=ScriptedModels(model, second)) as (app, client):
            stage = Playback(app, client, model, second, outcome)
            for first in range(0, attacks, ROUND):
                kept = secret(chosen)
                canaries += kept.canaries
                made = [attack(chosen, kept, number) for number in range(first, min(first + ROUND, attacks))]
                canaries += await _round(stage, kept, made, level)
            if harmless:
                await _harmless(stage, secret(chosen), harmless)
        # Logs and disk hold all attacks: whatever of any of them is found there has left.
        _look(outcome, "the log", "\n".join(map(str, logs)), canaries)
        _look(outcome, "a row or a file", "\n".join(text for _, text in stored_elsewhere(folder)), canaries)
    return outcome


async def _round(stage: Playback, kept: Secret, attacks: Sequence[Attack], level: GrantLevel) -> list[str]:
    """Some attacks on one base, each in a turn of one conversation; gives the pieces that they tell."""
    app, client, model, second = stage.app, stage.client, stage.model, stage.second
    base = await restricted_base(app, kept.text, title=kept.title)
    await grant(app, base, level)
    conversation = await client.conversation()
    asked, left = len(model.requests), list[tuple[str, str]]()
    for number, one in enumerate(attacks):
        stage.outcome.kinds[one.kind] += 1
        second.then(one.does)
        query = encode_text({"query": f"What is owed, and when? ({number})"})
        model.then(calling(ToolCall(f"{base}-{number}", NAME, query)), saying("That is all I may say."))
        packets = await client.send(conversation, "What do the documents say?", knowledge_base_ids=[base])
        left += [("a packet", encode_text(packet)) for packet in packets]
        _count(stage.outcome, packets)
    left += await _later(stage, conversation, f"{base}-0")
    left += [("a request to the main model", encode_text(model.body(request))) for request in model.requests[asked:]]
    pieces = [piece for one in attacks for piece in one.pieces]
    for what, text in left:
        _look(stage.outcome, what, text, [*kept.canaries, *pieces])
    return pieces


async def _later(stage: Playback, conversation: str, call_id: str) -> list[tuple[str, str]]:
    """What is given of these turns afterwards: by the tools of memory, and by every view of a turn and its requests."""
    client, model = stage.client, stage.model
    calls = (
        ToolCall(f"s{call_id}", "search_conversation", encode_text({"query": "sum due number keys owed"})),
        ToolCall(f"r{call_id}", "read_message", encode_text({"id": call_id})),
    )
    model.then(calling(*calls), saying("No more."))
    left = [("a packet", encode_text(one)) for one in await client.send(conversation, "And before?")]
    listed = await client.get(f"/conversations/{conversation}/turns")
    left.append(("the list of turns", encode_text(listed)))
    newest = listed["data"][0]["id"]
    left.append(("the journal", encode_text(await client.packets(newest))))
    for request in (await client.get(f"/turns/{newest}/requests"))["data"]:
        for view in ("map", "raw", "why"):
            answer = await client.call("GET", f"/requests/{request['id']}/{view}")
            left.append((f"the view {view} of a request", answer.text))
    return left


async def _harmless(stage: Playback, kept: Secret, count: int) -> None:
    """Harmless summaries about a base, as the second model may give them."""
    base = await restricted_base(stage.app, kept.text, title=kept.title)
    await add(stage.app, base, secret(Random(kept.figure)).text, "second.md")
    outcome = stage.outcome
    for number in range(count):
        said = HARMLESS[number % len(HARMLESS)]
        stage.second.then(saying(reply(said)))
        asked = RestrictedQuestion(LOCAL_OWNER, f"What is owed? {number}", 8)
        contracts = RestrictedBase(base, ANN.user_id, "Contracts")
        [answered] = await stage.app.knowledge.restricted.answers_of(asked, [contracts])
        outcome.harmless += 1
        outcome.unchanged += answered.safe.text == said
        outcome.changed += [] if answered.safe.text == said else [f"{said!r}: {', '.join(answered.removed)}"]


def _count(outcome: Outcome, packets: Sequence[Object]) -> None:
    for packet in packets:
        if packet["type"] == "tool.result":
            outcome.reasons.update(re.findall(r'"reason":"(\w+)"', packet["content"]) or ["read in full"])


def _look(outcome: Outcome, what: str, text: str, canaries: Sequence[str]) -> None:
    outcome.looked_at += len(text)
    outcome.leaks += found_in(what, text, canaries)
