"""The instructions for summaries, and the validation of the answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from lamella.core.counting import beginning_of, count_tokens
from lamella.core.knowledge import bases_of_window
from lamella.core.messages import StopReason, Turn
from lamella.core.sessions import SessionSummary
from lamella.sessions.summary_check import TOP, Check
from lamella.sessions.summary_input import framed, neutral

MAX_OUTPUT = 6_000
"""Maximum output of a summary's request, thinking included: output is most of a compaction's cost."""

LONGEST = 4_000
"""Local tokens of a summary."""

LEAST = 400
"""Local tokens that the summary of a small window, or of a part of a conversation, may have in any case."""

SHARE = 1 / 8
"""The share of a window that one summary may have."""

INDEX_SHARE = 0.05
"""The share of a window that the index of messages may have in a request for a summary."""

LITERAL = 250
"""Local tokens of a session that is its own summary: asking a model for a shorter one would cost more than it saves."""

_PROMPTS = files("lamella.sessions").joinpath("prompts")
_SUMMARY = _PROMPTS.joinpath("summary.md").read_text("utf-8").strip()
_CONDENSE = _PROMPTS.joinpath("condense.md").read_text("utf-8").strip()
_IDS_OF_INDEX = "one of those in the index above"
_IDS_OF_DATA = "one of those that stand in brackets above"
STAYS = (
    "The messages behind the last one in the index stay in the new window word for word: leave out what only they say."
)
SYSTEM = _PROMPTS.joinpath("summariser.md").read_text("utf-8").strip()
"""The system prompt of a model which reads the conversation as data."""


def longest_in(room: int) -> int:
    """Local tokens of a summary in a window with room for so many."""
    return max(LEAST, min(LONGEST, int(room * SHARE)))


def words_of(tokens: int) -> int:
    """The number of words to ask for, for so many tokens: 1,500 for 4,000."""
    return tokens * 3 // 80 * 10


@dataclass(frozen=True, slots=True)
class SummaryOptions:
    """Options of a summary: its `focus`, at most `longest` local tokens; `before` says what the previous attempt
    lacked. `room`: ask for at most so many tokens, but accept more.
    """

    focus: str = ""
    longest: int = LONGEST
    before: Check | None = None
    room: int | None = None

    @property
    def words(self) -> str:
        """The number of words to ask for."""
        room = self.longest if self.room is None else max(LEAST, self.room)
        return f"{words_of(min(self.longest, room)):,}"


def instruction(
    turns: Sequence[Turn],
    options: SummaryOptions = SummaryOptions(),
    *,
    material: str = "",
    stays: bool = False,
    room: int | None = None,
) -> str:
    """The message after a live window that asks for the summary of its `turns`.

    Data comes first, in frames that it can't close: `material` and an index of the messages. The instruction comes
    last. `stays`: newer messages between these and the instruction are kept. `room` are the local tokens of the whole
    window, of which the index takes a small share; None: as many as it needs.
    """
    parts = [framed("material", material)] if material else []
    parts.append(framed("index", index_of(turns, None if room is None else int(room * INDEX_SHARE))))
    parts.append(_order(_IDS_OF_INDEX, options))
    if stays:
        parts.append(STAYS)
    return "\n\n".join([*parts, *_wishes(options)])


def data_instruction(options: SummaryOptions, part: int = 1, parts: int = 1) -> str:
    """The text after a conversation, or a part of it, that is sent as data."""
    of = f"Above stands part {part} of {parts} of the conversation. The others are summarised separately: summarise "
    part_of = [f"{of}only this one."] if parts > 1 else []
    return "\n\n".join([_order(_IDS_OF_DATA, options), *part_of, *_wishes(options)])


def condense_instruction(options: SummaryOptions) -> str:
    """The text after the summaries of consecutive parts of one conversation."""
    return "\n\n".join([_CONDENSE.format(words=options.words), *_wishes(options)])


def _order(ids: str, options: SummaryOptions) -> str:
    return _SUMMARY.format(ids=ids, words=options.words)


INSTRUCTION = _order(_IDS_OF_INDEX, SummaryOptions())


def _wishes(options: SummaryOptions) -> list[str]:
    focus = [f"Give most room to this: {options.focus}"] if options.focus else []
    return [*focus, _lacked(options.before)] if options.before is not None else focus


def index_of(turns: Sequence[Turn], room: int | None = None) -> str:
    """A line with the id and the first words of each message. If `room` is too small, every second or third is listed
    and so on; each line says how many are skipped after it.
    """
    each = 1
    while True:
        text = "\n".join(_line(turns[at : at + each]) for at in range(0, len(turns), each))
        size = count_tokens(text)
        if room is None or size <= room or each >= len(turns):
            return text
        each = max(each + 1, -(-each * size // max(room, 1)))


def _line(turns: Sequence[Turn]) -> str:
    user, after = turns[0].user, len(turns) - 1
    more = f" and the {'one' if after == 1 else after} after it" if after else ""
    return f"- {user.id}{more}: “{_beginning(user.text)}”"


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:60] + "…"


def _lacked(check: Check) -> str:
    """What an earlier summary omitted or invented. The items are quoted from the material."""
    lines = ["You wrote a summary of this before, which was not kept. Write it again, whole."]
    asked = [item for item in check.missing if item.rank <= TOP]
    if asked:
        lines.append("It left out what the user asked for in general, or to remember:")
        lines += [f"- “{neutral(item.sentence)}” [{item.message_id}]" for item in asked[:10]]
    others = [item for item in check.missing if item.rank > TOP]
    if others:
        lines.append("It left out: " + ", ".join(f"“{neutral(item.text)}” [{item.message_id}]" for item in others[:20]))
    if check.invented:
        lines.append("This is nowhere in the conversation: " + ", ".join(f"“{text}”" for text in check.invented[:20]))
    return "\n".join(lines)


def literal(turns: Sequence[Turn]) -> SessionSummary:
    """The summary of a very short session: its messages, word for word."""
    lines = ["# Said"]
    for turn in turns:
        lines.append(f"- User: “{turn.user.text.strip()}” [{turn.user.id}]")
        lines += [f"- Answer: “{step.text.strip()}” [{turn.user.id}]" for step in turn.steps if step.text.strip()]
        called = ", ".join(dict.fromkeys(call.name for step in turn.steps for call in step.calls))
        lines += [f"- Tools: {called} [{turn.user.id}]"] if called else []
    text = neutral("\n".join(lines))
    return SessionSummary(text, count_tokens(text), made_from=tuple(sorted(bases_of_window(turns))))


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer is not a summary, and why."""

    why: str


def checked(text: str, stop: StopReason | None, *, called_tools: bool, source_tokens: int) -> str | Refused:
    """The summary, or why it is unusable: empty, cut off, a call, or not shorter than its source."""
    text = neutral(text.strip())
    size = count_tokens(text)
    if called_tools:
        return Refused("the model called a tool instead of answering")
    if stop is not StopReason.END_TURN:
        return Refused(f"the summary was cut off ({stop.value if stop else 'broken'})")
    if not text:
        return Refused("the summary is empty")
    if size > LONGEST:
        return Refused(f"the summary has {size} tokens, more than {LONGEST}")
    if size >= source_tokens:
        return Refused(f"the summary has {size} tokens, what it stands for has {source_tokens}")
    return text


def joined(summaries: Sequence[str]) -> str:
    """Summaries of consecutive parts of one conversation as one: each section once, in the order of the parts."""
    if len(summaries) == 1:
        return summaries[0]
    sections: dict[str, list[str]] = {}
    for summary in summaries:
        for heading, lines in _sections(summary):
            known = sections.setdefault(heading, [])
            known += [line for line in lines if line not in known]
    return _written(sections.items())


def shortened(summary: str, ranks: Sequence[int], most: int) -> tuple[str, int]:
    """The summary with at most so many local tokens, and the number of lines cut or left out: highest rank first, the
    last ones first within a rank.
    """
    if count_tokens(summary) <= most:
        return summary, 0
    lines = summary.split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    headings = [at for at, line in enumerate(lines) if line.startswith("#")]
    kept, size = set(headings), sum(count_tokens(lines[at]) + 1 for at in headings)
    for at in sorted(filled, key=lambda at: (ranks[at], at)):
        tokens = count_tokens(lines[at]) + 1
        if size + tokens <= most:
            size += tokens
            kept.add(at)
    lost = len(filled) - len(kept) + len(headings)
    text = _written(_sections("\n".join(lines[at] for at in sorted(kept))))
    return (text, lost) if text else (beginning_of(summary, most), lost)


def _sections(summary: str) -> list[tuple[str, list[str]]]:
    """The lines of a summary that say something, by the headings above them."""
    found: list[tuple[str, list[str]]] = []
    for line in (line.rstrip() for line in summary.splitlines() if line.strip()):
        if line.startswith("#"):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
        else:
            found.append(("", [line]))
    return found


def _written(sections: Iterable[tuple[str, list[str]]]) -> str:
    shown = ["\n".join([heading, *lines] if heading else lines) for heading, lines in sections if lines]
    return "\n\n".join(shown)
