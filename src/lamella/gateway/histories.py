"""A client's history, read as turns, and named so that it is found again.

A client that names an agent as its model sends its whole history with every request. It never saw some of the steps:
searches on the server, their results, thinking. So its history is not replayed. Each answer that it got is stored
under a key of everything that it had seen by then, and the key leads back to the turn with all of its steps:

    U "When?"  A "In May."  U "Sure?"     ->  the key of [U, A] is known: its turn, then the new message "Sure?"
    U "When?"  A "In June." U "Sure?"     ->  nothing is known: the history was edited, and is stored as it was sent

    history = read_history(messages)
    history.answers       # the keys of its answers, the longest part of the history last
    history.after(place)  # what follows that answer: whole turns, then the newest message

Clients change what they send back: a text of blocks becomes a string, an empty part is gone, an answer is trimmed. So a
key is made of roles, texts, calls with their ids and arguments, results and pictures. White space in answers does not
count; in the user's messages it does, but for both ends. Instructions (role `system`) have no part in it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from lamella.core.json import Json, decode_arguments, digest, encode_sorted
from lamella.core.messages import AnswerPart, Image, Part, Reasoning, Text, ToolCall, ToolResult
from lamella.core.prompt import PromptMessage


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """An answer in a history: the number of messages up to its end, and the key of all of them."""

    end: int
    key: str


@dataclass(frozen=True, slots=True)
class ToldStep:
    """A step as a client tells it: the parts of the answer, and the results of its calls."""

    parts: tuple[AnswerPart, ...]
    results: tuple[ToolResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldTurn:
    """A turn as a client tells it. `results` come first: those of calls that the turn before handed out. `key` names
    the history up to its answer; "" if it has none.
    """

    text: str = ""
    images: tuple[Image, ...] = ()
    steps: tuple[ToldStep, ...] = ()
    results: tuple[ToolResult, ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class ClientHistory:
    """A history with the keys of its answers. `tip` is the key of all its messages."""

    messages: tuple[PromptMessage, ...]
    answers: tuple[AnswerEnd, ...]
    tip: str

    @property
    def opening(self) -> str:
        """The key of a history without an answer; "" for one that has some."""
        return "" if self.answers else self.tip

    def with_answer(self, parts: Sequence[Part]) -> str:
        """The key of the history with an answer of these parts; "" if they say nothing."""
        answer = PromptMessage("assistant", tuple(parts))
        return _key(self.tip, "assistant", (answer,)) if _says(answer) else ""

    def after(self, end: int) -> tuple[ToldTurn, ...]:
        """The turns after so many messages. The last is to be answered: it has no steps, unless the history ends with
        an answer.
        """
        turns = turns_of(self.messages[end:])
        keys = {answer.end - end: answer.key for answer in self.answers if answer.end > end}
        named = [replace(turn, key=keys.get(number, "")) for turn, number in turns]
        if not named or not named[-1].steps or not named[-1].steps[-1].results:
            return tuple(named)
        *steps, last = named[-1].steps
        handed_out = replace(named[-1], steps=(*steps, ToldStep(last.parts)))
        return (*named[:-1], handed_out, ToldTurn(results=last.results))


SYSTEM = "system"


def read_history(messages: Sequence[PromptMessage]) -> ClientHistory:
    """The history of these messages, in order."""
    key, answers = "", list[AnswerEnd]()
    said = [(number, message) for number, message in enumerate(messages, start=1) if message.role != SYSTEM]
    told = [(number, message) for number, message in said if _says(message)]
    for role, run in groupby(told, key=lambda pair: pair[1].role):
        numbers, those = zip(*run, strict=True)
        key = _key(key, role, those)
        if role == "assistant":
            answers.append(AnswerEnd(numbers[-1], key))
    return ClientHistory(tuple(messages), tuple(answers), key)


def _key(before: str, role: str, messages: Sequence[PromptMessage]) -> str:
    return digest(before.encode(), role.encode(), encode_sorted(_meaning(messages)).encode())


def _says(message: PromptMessage) -> bool:
    """Whether a message has anything but thinking."""
    return any(
        bool(part.text.strip()) if isinstance(part, Text) else not isinstance(part, Reasoning) for part in message.parts
    )


def _meaning(messages: Sequence[PromptMessage]) -> Json:
    """What consecutive messages of one role say."""
    parts = [part for message in messages for part in message.parts]
    is_answer = messages[0].role == "assistant"
    texts = [part.text.strip() for part in parts if isinstance(part, Text) and part.text.strip()]
    text = "".join("".join(texts).split()) if is_answer else "\n\n".join(texts)
    calls: list[Json] = [
        [part.id, part.name, _arguments(part.arguments)] for part in parts if isinstance(part, ToolCall)
    ]
    results = sorted([part.call_id, part.content.strip()] for part in parts if isinstance(part, ToolResult))
    pictures: list[Json] = [part.digest for part in parts if isinstance(part, Image)]
    return [text.replace("\r\n", "\n"), calls, results, pictures]


def _arguments(text: str) -> Json:
    try:
        return decode_arguments(text or "{}")
    except msgspec.DecodeError:
        return text


# As turns


def turns_of(messages: Sequence[PromptMessage]) -> tuple[tuple[ToldTurn, int], ...]:
    """The messages as turns, each with the number of messages up to its last answer. A message that comes after an
    answer begins one; results go on with the turn before.

    A system message stands where it was sent, as a part of the user's message, in a tag.
    """
    turns: list[ToldTurn] = []
    ends: dict[int, int] = {}
    for number, message in enumerate(messages, start=1):
        if message.role != "assistant":
            _ask(turns, message)
        elif _says(message):
            _answer(turns, message)
            ends[len(turns) - 1] = number
    return tuple((turn, ends.get(index, 0)) for index, turn in enumerate(turns))


NOTHING_SAID = "(The conversation begins with an answer.)"
"""Stands for a user's message that is not there: a model has to be asked something."""


def _answer(turns: list[ToldTurn], message: PromptMessage) -> None:
    parts = tuple(part for part in message.parts if isinstance(part, (Text, ToolCall)))
    if not turns:
        turns.append(ToldTurn(NOTHING_SAID))
    turns[-1] = replace(turns[-1], steps=(*turns[-1].steps, ToldStep(parts)))


def _ask(turns: list[ToldTurn], message: PromptMessage) -> None:
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    texts = "\n\n".join(_texts(message))
    images = tuple(part for part in message.parts if isinstance(part, Image))
    if results:
        _add_results(turns, results)
    if not texts and not images:
        return
    if not turns or turns[-1].steps:
        turns.append(ToldTurn())
    turn = turns[-1]
    text = f"{turn.text}\n\n{texts}" if turn.text and texts else turn.text or texts
    turns[-1] = replace(turn, text=text, images=(*turn.images, *images))


def _add_results(turns: list[ToldTurn], results: tuple[ToolResult, ...]) -> None:
    if turns and turns[-1].steps:
        *before, last = turns[-1].steps
        turns[-1] = replace(turns[-1], steps=(*before, replace(last, results=(*last.results, *results))))
    elif turns:
        turns[-1] = replace(turns[-1], results=(*turns[-1].results, *results))
    else:
        turns.append(ToldTurn(results=results))


def _texts(message: PromptMessage) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Text) and part.text.strip():
            yield f"<system_message>\n{part.text}\n</system_message>" if message.role == SYSTEM else part.text
