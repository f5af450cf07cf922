"""One bad day, drawn from a seed: which wire, what goes wrong, where, how often, and what the turn may come to."""

from __future__ import annotations

import random
from dataclasses import dataclass

from lamella.core.json import Json

MODELS = ("claude-opus-4-8", "claude-opus-5-5", "gpt-6.1-terra", "openai-chat")
"""The last is GPT by Chat Completions."""

REASONING = "Let me think about where that is written down."
TEXT = "I will look it up in the file first."
CALL: Json = {"id": "c1", "name": "read_file", "arguments": {"document": 1, "from_line": 12, "lines": 400}}
ARGUMENTS = 44
"""Characters of the call's arguments, at least."""
ANSWER = "It opens at nine, and it closes at eight in the evening."
RETRIES = 1

REFUSALS = ("429", "500", "504", "529", "drop_before")
"""Before anything came."""
BREAKS = ("drop_after", "stream_error", "500")
"""In the middle."""
ENDS = ("truncated_tool_json", "max_tokens", "refusal", "content_filter", "empty")
"""The answer itself is odd."""
PEOPLE = ("stop", "leave")
"""The user stops the turn, or only goes away."""
DISK = ("no_end", "no_journal")
"""The database refuses the end of the turn, or its packets, for a while."""

PLACES = ("before", "reasoning", "text", "arguments")


@dataclass(frozen=True, slots=True)
class Case:
    """`step` is the request that it happens to, 0 or 1; `when` a number of streamed characters, where it matters."""

    seed: int
    model: str
    kind: str
    place: str
    step: int
    times: int
    when: int
    rate: int

    @classmethod
    def drawn(cls, seed: int) -> Case:
        """The case of this seed, the same for ever."""
        rng = random.Random(seed)
        kind = rng.choice((*REFUSALS, *BREAKS, *ENDS, *PEOPLE, *DISK))
        step = rng.randrange(2)
        in_stream = kind in (*BREAKS, *PEOPLE, "max_tokens", "refusal", "content_filter", "truncated_tool_json")
        place = rng.choice(PLACES[1:]) if in_stream else "before"
        if place == "arguments" and step == 1:
            place = "text"
        if kind == "truncated_tool_json":
            step, place = 0, "arguments"
        text = len(TEXT if step == 0 else ANSWER)
        first, last = {
            "before": (0, 0),
            "reasoning": (1, len(REASONING) - 1),
            "text": (len(REASONING) + 1, len(REASONING) + text - 1),
            "arguments": (len(REASONING) + text + 1, len(REASONING) + text + ARGUMENTS - 1),
        }[place]
        when = rng.randint(first, last)
        if kind == "truncated_tool_json":
            when = rng.randint(1, ARGUMENTS - 1)
        return cls(
            seed, rng.choice(MODELS), kind, place, step, rng.randint(1, RETRIES + 1), when, rng.choice((600, 3_000, 0))
        )

    @property
    def replies(self) -> list[Json]:
        """What the model says to the requests of the turn, with the fault in its place."""
        script: list[dict[str, Json]] = [
            {"reasoning": REASONING, "text": TEXT, "tool_calls": [CALL], "chunk": 7},
            {"reasoning": REASONING, "text": ANSWER, "chunk": 7},
        ]
        fault = self._fault()
        if fault is not None:
            script[self.step]["fault"] = fault
        return [*script, {"text": "More cannot be said."}, {"text": "Really."}]

    def _fault(self) -> dict[str, Json] | None:
        if self.kind in (*PEOPLE, *DISK):
            return None
        fault: dict[str, Json] = {"kind": self.kind, "times": self.times}
        if self.place != "before":
            fault["when"] = self.when
        if self.kind == "429":
            fault["retry_after"] = 0.01
        return fault

    @property
    def says_nothing(self) -> bool:
        """Whether the odd answer is none at all: OpenAI's refusals are a text, and who said nothing is asked again."""
        match self.kind:
            case "empty":
                return self.times > RETRIES
            case "refusal":
                return self.place == "reasoning" and self.model.startswith("claude")
            case "max_tokens" | "content_filter":
                return self.place == "reasoning"
            case _:
                return False

    @property
    def statuses(self) -> frozenset[str]:
        """How the turn may end."""
        if self.kind == "stop":
            return frozenset({"stopped", "finished"})
        if self.kind in ENDS:
            return frozenset({"failed" if self.says_nothing else "finished"})
        if self.kind in (*PEOPLE, *DISK):
            return frozenset({"finished"})
        if self.kind in REFUSALS and self.place == "before":
            return frozenset({"finished" if self.times <= RETRIES else "failed"})
        # Reasoning that this wire does not show is no sign of an answer: the request is sent again.
        if self.place == "reasoning" and self.model == "openai-chat":
            return frozenset({"finished" if self.times <= RETRIES else "failed"})
        return frozenset({"failed"})
