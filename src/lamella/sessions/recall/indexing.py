"""The searchable texts of a turn: the user's message, the answers, the tool results. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lamella.context.results import READ_MESSAGE
from lamella.core.recall import Passage, Source, Speaker
from lamella.core.records import TurnRecord
from lamella.search.passages import circumstances, passages_of
from lamella.search.terms import terms_of

SEARCH_CONVERSATION = "search_conversation"

UNRECALLED = frozenset({SEARCH_CONVERSATION, READ_MESSAGE})
"""Tools whose results repeat indexed text."""


def turn_passages(turn: TurnRecord) -> Iterator[tuple[Passage, str]]:
    """The passages of a turn without their vectors, each with its text, in the order in which they came."""
    yield from _cut(turn.user_message_id, "", Speaker.USER, "", turn.sent_at, turn.text)
    for result in turn.results:  # of calls that the caller answered
        yield from _cut(turn.user_message_id, result.call_id, Speaker.TOOL, result.name, turn.sent_at, result.content)
    for step in turn.steps:
        yield from _cut(step.id, "", Speaker.ASSISTANT, "", turn.sent_at, step.text)
        for result in step.results:
            if result.name not in UNRECALLED:
                yield from _cut(step.id, result.call_id, Speaker.TOOL, result.name, turn.sent_at, result.content)


def summary_passages(summary: Source) -> Iterator[tuple[Passage, str]]:
    """As `turn_passages`, of the summary of a session."""
    yield from _cut(summary.id, "", Speaker.SUMMARY, "", summary.at, summary.content)


def _cut(
    source: str, call_id: str, speaker: Speaker, name: str, at: datetime, content: str
) -> Iterator[tuple[Passage, str]]:
    around = circumstances(name or speaker.value, at)
    for start, end in passages_of(content):
        text = content[start:end]
        yield Passage(source, call_id, speaker, name, at, start, end, [*terms_of(text), *around]), text
