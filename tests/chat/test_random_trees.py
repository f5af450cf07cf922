"""Edits, repeats, ways back, compactions, prunings in any order: a request holds exactly the path that it follows.

The rule that the window is compared with is written down once more here, over a tree of its own: a compaction or a
pruning holds on a path if its cut-off lies on it, and if the path went on from where it parts from the place where that
was decided after it was decided (docs/decisions/0020).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.app.conversations import NewConversation
from lamella.chat import Message
from lamella.core.decisions import DecisionKind
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec, WireRequest
from lamella.core.records import UNCHANGED
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.sessions.compaction import Compacted
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

pytestmark = pytest.mark.long

MORE = "and more words behind it so that it has some length " * 3


def word(number: int) -> str:
    """A number in letters: figures would be checked for in summaries."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:03d}")


class Look:
    """A tool whose results are long enough to be pruned."""

    spec = ToolSpec("look", "Looks something up.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 5.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        return f"result {call.id.removeprefix('call')} {MORE}"


class Answers(ScriptedModel):
    """Calls the tool in every second turn, and numbers what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.said = 0

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        self.said += 1
        texts = [str(block.value.get("text", "")) for block in request.blocks]
        if any("Summarise this conversation now." in text for text in texts[-2:]):
            return iter(saying(f"summary {word(self.said)} {MORE}"))
        if self.said % 2 and request.blocks[-1].value.get("type") != "tool_result":
            return iter(calling(ToolCall(f"call{word(self.said)}", "look", "{}")))
        return iter(saying(f"answer {word(self.said)} {MORE}"))


@dataclass(frozen=True)
class Node:
    """A turn: what stands in a window for it, with its result whole and as a stub."""

    id: str
    parent: str | None
    born: int
    whole: tuple[str, ...]
    pruned: tuple[str, ...]


@dataclass(frozen=True)
class Cut:
    """A compaction or a pruning, made at `head`: up to the turn `cutoff`; `summaries` stand before what is left."""

    head: str
    cutoff: str
    born: int
    summaries: tuple[str, ...] = ()


@dataclass
class Tree:
    """What was done in a conversation, and where it stands."""

    nodes: dict[str, Node] = field(default_factory=dict)
    compactions: list[Cut] = field(default_factory=list)
    prunings: list[Cut] = field(default_factory=list)
    head: str | None = None
    moment: int = 0

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    def path(self, last: str | None) -> list[str]:
        found: list[str] = []
        while last is not None:
            found.append(last)
            last = self.nodes[last].parent
        return found[::-1]

    def holds(self, cut: Cut, path: list[str]) -> bool:
        if cut.cutoff not in path:
            return False
        way = self.path(cut.head)
        parting = max((number for number, id in enumerate(path) if id in way), default=-1)
        return parting + 1 == len(path) or self.nodes[path[parting + 1]].born > cut.born

    def compaction(self, path: list[str]) -> Cut | None:
        return next((cut for cut in reversed(self.compactions) if self.holds(cut, path)), None)

    def window(self, last: str | None) -> list[str]:
        """What a request that follows `last` holds before its question."""
        path = self.path(last)
        cut = self.compaction(path)
        start = path.index(cut.cutoff) + 1 if cut is not None else 0
        stubbed = max((path.index(one.cutoff) for one in self.prunings if self.holds(one, path)), default=-1)
        said = [self.nodes[id].pruned if path.index(id) <= stubbed else self.nodes[id].whole for id in path[start:]]
        return [*(cut.summaries if cut is not None else ()), *(text for texts in said for text in texts)]


def shown(request: WireRequest) -> list[str]:
    """The marked texts of a request, in order."""
    found = []
    for block in request.blocks:
        text = str(block.value.get("content" if block.value.get("type") == "tool_result" else "text", ""))
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            if kind in ("question", "answer", "result", "summary"):
                found.append(f"{kind} {rest.split(' ')[0]}")
            elif line == "look":
                found.append("stub")
    return found


class Talk:
    """A conversation, done for real and in the tree."""

    def __init__(self, app: App, model: Answers, conversation: str) -> None:
        self.app, self.model, self.conversation, self.tree = app, model, conversation, Tree()

    async def say(self, parent: str | None, *, named: bool) -> None:
        """A question behind `parent`, and what its first request held."""
        tree, follows = self.tree, parent
        question = f"question {word(len(tree.nodes))}"
        if named and parent is not None:
            follows = (await self.app.store.turns.turn(LOCAL_OWNER, parent)).run.id
        asked = Message(f"{question} {MORE}", parent_message_id=follows if named else UNCHANGED)
        await self._turn(asked, parent, question)

    async def again(self, turn_id: str) -> None:
        """A turn asked once more."""
        asked = await self.app.chat.sender.again(LOCAL_OWNER, self.conversation, turn_id, Message(""))
        await self._turn(asked, self.tree.nodes[turn_id].parent, self.tree.nodes[turn_id].whole[0])

    async def _turn(self, asked: Message, parent: str | None, question: str) -> None:
        expected, before = self.tree.window(parent), len(self.model.requests)
        born = self.tree.tick()
        turn_id = await self.app.chat.sender.begin(LOCAL_OWNER, self.conversation, asked)
        async for _ in self.app.chat.stream(LOCAL_OWNER, turn_id):
            pass
        await self.app.chat.rest(self.conversation)
        requests = self.model.requests[before:]
        assert shown(requests[0]) == [*expected, question]
        steps = (await self.app.store.turns.turn(LOCAL_OWNER, turn_id)).steps
        whole, pruned = [question], [question]
        for step in steps:
            for result in step.results:
                whole.append(" ".join(result.content.split(" ")[:2]))
                pruned.append("stub")
            if step.text:
                whole.append(" ".join(step.text.split(" ")[:2]))
                pruned.append(whole[-1])
        if len(requests) == 2:
            assert shown(requests[1]) == [*expected, *whole[:2]]
        self.tree.nodes[turn_id] = Node(turn_id, parent, born, tuple(whole), tuple(pruned))
        self.tree.head = turn_id

    async def prefer(self, turn_id: str) -> None:
        await self.app.chat.prefer(LOCAL_OWNER, turn_id, None)
        self.tree.head = turn_id

    async def compact(self) -> None:
        """A compaction; it may find nothing to do."""
        head, before = self.tree.head, self.tree.compaction(self.tree.path(self.tree.head))
        done = await self.app.sessions.compact(LOCAL_OWNER, self.conversation, who="user_local", why="asked for")
        await self.app.chat.rest(self.conversation)
        if not isinstance(done, Compacted) or head is None:
            return
        cutoff = await self._newest(DecisionKind.SESSION)
        assert cutoff in self.tree.path(head)
        summary = f"summary {word(self.model.said)}"
        summaries = (*(before.summaries if before is not None else ()), summary)
        self.tree.compactions.append(Cut(head, cutoff, self.tree.tick(), summaries))

    async def prune(self) -> None:
        """A pruning; it may find nothing to do."""
        head = self.tree.head
        if await self.app.sessions.prune(LOCAL_OWNER, self.conversation) is None or head is None:
            return
        step = await self._newest(DecisionKind.PRUNE)
        turns = [await self.app.store.turns.turn(LOCAL_OWNER, id) for id in self.tree.path(head)]
        [cutoff] = [turn.id for turn in turns if step in {one.id for one in turn.steps}]
        self.tree.prunings.append(Cut(head, cutoff, self.tree.tick()))

    async def _newest(self, kind: DecisionKind) -> str:
        made = [one.decision for one in await self.app.store.conversations.decisions(LOCAL_OWNER, self.conversation)]
        return str([one for one in made if one.kind is kind][-1].outcome)


NAMES = ["say", "say", "say", "edit", "again", "prefer", "compact", "prune"]


def drawn(seed: int, length: int) -> list[tuple[str, int]]:
    """Operations, each with a number that says where. Hypothesis alone would draw mostly short and tame ones."""
    chance = Random(seed)
    return [(chance.choice(NAMES), chance.randrange(1000)) for _ in range(length)]


async def done(app: App, model: Answers, operations: list[tuple[str, int]]) -> None:
    conversation = await app.conversations.create(LOCAL_OWNER, NewConversation(layout="lamella"))
    talk = Talk(app, model, conversation.id)
    tree = talk.tree
    for name, chance in operations:
        known = list(tree.nodes)
        some = known[chance % len(known)] if known else None
        if name == "say" or some is None:
            await talk.say(tree.head, named=False)
        elif name == "edit":
            await talk.say(tree.nodes[some].parent, named=True)
        elif name == "again":
            await talk.again(some)
        elif name == "prefer":
            await talk.prefer(some)
        else:
            await (talk.compact() if name == "compact" else talk.prune())
    await talk.say(tree.head, named=False)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, App, Answers]]:
    """One app for all conversations: to open it takes longer than a conversation."""
    model = Answers()
    folder: Path = tmp_path_factory.mktemp("trees")
    given: dict[str, Any] = {"keep_recent_tokens": 120, "tool_keep_threshold": 0, "titles": False, "recall": "off"}
    settings = read_settings(data=folder, **given)
    with asyncio.Runner() as runner:
        app = open_app(settings, models=ScriptedModels(model), tools=(Look(),))
        yield runner, runner.run(app.__aenter__()), model
        runner.run(app.__aexit__(None, None, None))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), length=st.integers(12, 30))
def test_a_request_holds_the_path_that_it_follows(
    opened: tuple[asyncio.Runner, App, Answers], seed: int, length: int
) -> None:
    runner, app, model = opened
    runner.run(done(app, model, drawn(seed, length)))


def test_a_summary_holds_at_its_cut_off_after_an_older_branch_was_gone_on_with(
    opened: tuple[asyncio.Runner, App, Answers],
) -> None:
    runner, app, model = opened
    runner.run(gone_back(app, model))


async def gone_back(app: App, model: Answers) -> None:
    conversation = await app.conversations.create(LOCAL_OWNER, NewConversation(layout="lamella"))
    talk = Talk(app, model, conversation.id)
    model.said += model.said % 2
    await talk.say(None, named=False)
    first = talk.tree.head
    await talk.say(first, named=False)
    older = talk.tree.head
    await talk.say(first, named=True)
    await talk.compact()
    [made] = talk.tree.compactions
    assert made.cutoff == first
    await talk.say(older, named=True)
    await talk.say(first, named=True)
    assert talk.tree.window(first) == [*made.summaries]
