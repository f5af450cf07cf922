"""Small windows by hand: turns, steps and requests in a line or two each, for tests of exact texts and figures."""

from __future__ import annotations

from collections.abc import Sequence

from lamella.context.assemble import Assembled, assemble
from lamella.context.input import ContextInput
from lamella.context.layout import Layout
from lamella.context.layouts import LAYOUTS
from lamella.core.counting import count_tokens
from lamella.core.messages import (
    Attachment,
    Image,
    Reasoning,
    Step,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    TurnStatus,
    UserMessage,
)
from lamella.core.models import ModelFacts
from lamella.core.prompt import Kind, PromptMessage, Sampling, Segment, ToolSpec

from .plans import LOOSE
from .wires import NOW

SEARCH = ToolSpec("search", "Looks words up.", '{"type":"object","properties":{"query":{"type":"string"}}}')


def words(tokens: int) -> str:
    """A text of so many local tokens."""
    return " ".join(["word"] * tokens)


def document(number: int, tokens: int, text: str = "words") -> Attachment:
    """A file of so many tokens, whatever its text."""
    return Attachment(f"file_{number}", number, f"file_{number}.txt", "text/plain", 10, tokens, text)


def result(id: str, content: str, *, digest: str = "", queries: tuple[str, ...] = ()) -> ToolResult:
    """What a search came to."""
    return ToolResult(id, "search", content, queries=queries, digest=digest)


def call(id: str, *results: ToolResult, thinks: bool = False, model: ModelFacts = LOOSE, made_after: str = "") -> Step:
    """A step that calls `search` once for each result."""
    thought = (Reasoning("Hm.", "c2VhbA=="),) if thinks else ()
    calls = tuple(ToolCall(result.call_id, "search", '{"query":"x"}') for result in results)
    tokens = 6 * len(calls) + sum(count_tokens(result.content) for result in results)
    return Step(id, model.name, (*thought, *calls), StopReason.TOOL_CALLS, made_after, tokens, results=results)


def answer(id: str, text: str = "So.", model: ModelFacts = LOOSE) -> Step:
    """A step that ends its turn."""
    return Step(id, model.name, (Text(text),), StopReason.END_TURN, "", count_tokens(text))


def turn(number: int, *steps: Step, text: str = "And?", attached: Sequence[Attachment] = (), dynamic: str = "") -> Turn:
    """A turn; finished when its last step has no calls."""
    user = UserMessage(f"msg_{number}", text, NOW, "UTC", count_tokens(text), tuple(attached), dynamic)
    ended = bool(steps) and not steps[-1].calls
    return Turn(f"turn_{number}", user, steps, TurnStatus.FINISHED if ended else TurnStatus.RUNNING)


def request(*turns: Turn, model: ModelFacts = LOOSE, budget: int = 100_000, **more: object) -> ContextInput:
    """The next request of a path whose last turn runs."""
    named = {"tools": (SEARCH,), "system": "You help.", **more}
    return ContextInput(model, budget, Sampling(1_000), history=turns[:-1], turn=turns[-1], **named)  # type: ignore[arg-type]


def made(context: ContextInput, layout: str | Layout = "lamella") -> Assembled:
    """The window in a layout."""
    return assemble(context, LAYOUTS[layout] if isinstance(layout, str) else layout)


def the(assembled: Assembled, id: str) -> Segment:
    """The segment of this id."""
    (found,) = [segment for segment in assembled.prompt.segments if segment.id == id]
    return found


def messages(assembled: Assembled) -> list[PromptMessage]:
    """All messages of a window."""
    return [message for segment in assembled.prompt.segments for message in segment.messages]


def results(assembled: Assembled) -> dict[str, str]:
    """What every call of a window shows as its result."""
    parts = [part for message in messages(assembled) for part in message.parts]
    return {part.call_id: part.content for part in parts if isinstance(part, ToolResult)}


def calls(assembled: Assembled) -> dict[str, str]:
    """The arguments of every call of a window."""
    parts = [part for message in messages(assembled) for part in message.parts]
    return {part.id: part.arguments for part in parts if isinstance(part, ToolCall)}


def text_of(segment: Segment) -> str:
    """The text of a segment."""
    return "\n".join(part.text for m in segment.messages for part in m.parts if isinstance(part, Text))


def absent(assembled: Assembled) -> dict[Kind, str]:
    """Why kinds are not in a window."""
    return {absence.kind: absence.why for absence in assembled.report.absent}


def shown_images(assembled: Assembled) -> list[Image]:
    """The pictures of a window."""
    return [part for message in messages(assembled) for part in message.parts if isinstance(part, Image)]
