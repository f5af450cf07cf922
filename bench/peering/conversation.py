"""The conversation that every peer has: questions, each with a look-up, planted facts, and a last question for all.

Standard library alone: the drivers import it in their own environments. Every text ends in a mark, (Q07) or [R07], by
which the simulator finds its reply, so that a library may wrap the text as it likes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

WORDS = [
    "beam",
    "slate",
    "gutter",
    "lintel",
    "mortar",
    "rafter",
    "timber",
    "window",
    "plaster",
    "socket",
    "boiler",
    "cellar",
    "ceiling",
    "floor",
    "drain",
    "valve",
    "cable",
    "survey",
    "estimate",
    "delivery",
    "invoice",
    "crane",
    "permit",
    "scaffold",
    "insulation",
    "damp",
    "crack",
    "hinge",
    "lock",
    "stair",
    "corridor",
    "hall",
    "roof",
]
SYSTEM_TOKENS, RESULT_TOKENS = 1_500, 1_000
SECONDS_BETWEEN = 60
"""Between two questions: less than any entry lives."""


@dataclass(frozen=True)
class Conversation:
    """`turns` questions with a look-up each. Every second result has a fact; every second one of these is said too."""

    turns: int = 40
    compact_at: int = 50_000
    """Tokens at which a library is told to summarise, where it takes a number."""

    @cached_property
    def system(self) -> str:
        return "You keep the files of a building site. Look up what is asked.\n" + prose(0, SYSTEM_TOKENS)

    def question(self, turn: int) -> str:
        return f"What do the files say of part {turn:02}? {prose(1_000 + turn, 60)} (Q{turn:02})"

    def result(self, topic: str) -> str:
        """What the tool gives for a part of the building."""
        turn = int(topic)
        fact = f" The code of part {turn:02} is FACT-{turn:02}. " if turn % 2 == 0 else " "
        return f"{prose(2_000 + turn, RESULT_TOKENS // 2)}{fact}{prose(3_000 + turn, RESULT_TOKENS // 2)} [R{turn:02}]"

    @property
    def last_question(self) -> str:
        return "Repeat every code of a part that the files gave. (QEND)"

    @property
    def facts(self) -> frozenset[str]:
        return frozenset(f"FACT-{turn:02}" for turn in range(1, self.turns + 1) if turn % 2 == 0)

    @property
    def said(self) -> frozenset[str]:
        """The facts that the model repeats in its answer; the others are in a result alone."""
        return frozenset(f"FACT-{turn:02}" for turn in range(1, self.turns + 1) if turn % 4 == 0)

    def replies(self) -> dict[str, dict[str, object]]:
        """The simulator's script: a call for each question, an answer for each result; all else keeps the facts."""
        script: dict[str, dict[str, object]] = {"end": {"match": r"\(QEND\)\W*$", "rule": "keep_facts"}}
        for turn in range(1, self.turns + 1):
            call = {"id": f"call_{turn:02}", "name": "look_up", "arguments": {"topic": f"{turn:02}"}}
            script[f"q{turn:02}"] = {"match": rf"\(Q{turn:02}\)\W*$", "tool_calls": [call]}
            script[f"r{turn:02}"] = {"match": rf"\[R{turn:02}\]\W*$", "text": answer(turn)}
        script["else"] = {"rule": "keep_facts"}
        return script

    def trace(self, model: str, settings: dict[str, object]) -> dict[str, object]:
        """The same as a trace for `lamella replay`, whose summaries keep the facts too."""
        schema = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
        tool = {"name": "look_up", "description": LOOK_UP, "input_schema": schema, "kind": "search"}
        return {
            "lamella_trace": 1,
            "model": model,
            "system": self.system,
            "tools": [tool],
            "settings": {"thinking_effort": "off", "reminder": "", "compaction_threshold": self.compact_at, **settings},
            "side": {"digest": "keep_facts", "summary": "keep_facts"},
            "turns": [*(self._turn(turn) for turn in range(1, self.turns + 1)), self._end()],
        }

    def _turn(self, turn: int) -> dict[str, object]:
        arguments = {"topic": f"{turn:02}"}
        call = {"id": f"call_{turn:02}", "name": "look_up", "arguments": arguments, "result": self.result(f"{turn:02}")}
        at = f"2026-03-02T{9 + turn // 60:02}:{turn % 60:02}:00+00:00"
        return {"at": at, "user": self.question(turn), "steps": [{"tool_calls": [call]}, {"text": answer(turn)}]}

    def _end(self) -> dict[str, object]:
        at = f"2026-03-02T{9 + (self.turns + 1) // 60:02}:{(self.turns + 1) % 60:02}:00+00:00"
        return {"at": at, "user": self.last_question, "steps": [{"text": "These are the codes."}]}


LOOK_UP = "Looks up a part of the building in the files of the site, by its number of two digits."


def answer(turn: int) -> str:
    fact = f"Its code is FACT-{turn:02}. " if turn % 4 == 0 else ""
    return f"Part {turn:02} is in order. {fact}{prose(4_000 + turn, 120)}"


def prose(seed: int, tokens: int) -> str:
    """About so many tokens of sentences, the same for the same seed."""
    chosen = random.Random(seed)
    sentences, left = [], tokens
    while left > 0:
        words = chosen.choices(WORDS, k=chosen.randint(6, 12))
        sentences.append(" ".join(words).capitalize() + ".")
        left -= len(words) + 2
    return " ".join(sentences)
