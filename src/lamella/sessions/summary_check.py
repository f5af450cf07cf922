"""How a summary compares with what it stands for: what of it is missing, and what is in no source. Mechanical and pure.

Compared are items that are the same whoever writes them: figures, dates, identifiers, addresses and file names, and
what the user asked for in general, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from lamella.core.counting import count_tokens
from lamella.core.json import JsonObject
from lamella.core.messages import Turn

MOST_ITEMS = 300
"""Items of a source that are looked for, the most important first."""

LISTED = 40
"""Items of one kind that a check names."""

SENTENCE = 240
"""Characters of a sentence that is kept literally."""

KEPT_HEADING = "# Kept literally"


class Rank(IntEnum):
    """How important it is that an item is in the summary; lower is more."""

    STANDING = 0
    """What the user asked for in general."""

    USER = 1
    ANSWER = 2
    RESULT = 3
    """Of a result that was to be kept until a compaction."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something of the source. `form` is what two writings of the same have in common, `sentence` where it stands."""

    form: str
    text: str
    sentence: str
    rank: Rank
    message_id: str


@dataclass(frozen=True, slots=True)
class Check:
    """What came out. `items` were looked for; `invented` are items of the summary that are in no source, `unknown_ids`
    references to messages that there are none of. `kept` were added to the summary, word for word.
    """

    items: int = 0
    missing: tuple[Item, ...] = ()
    invented: tuple[str, ...] = ()
    unknown_ids: tuple[str, ...] = ()
    kept: tuple[Item, ...] = field(default=())

    @property
    def is_bad(self) -> bool:
        """Whether asking again may be worth its price: an instruction is missing, or much of the rest."""
        standing = any(item.rank is Rank.STANDING for item in self.missing)
        return standing or (len(self.missing) >= 3 and len(self.missing) * 3 > self.items)

    def as_json(self) -> JsonObject:
        """The check as it is stored and shown."""
        lost = [item for item in self.missing if item not in self.kept]
        return {
            "items": self.items,
            "found": self.items - len(self.missing),
            "kept_literally": [item.text for item in self.kept[:LISTED]],
            "missing": [item.text for item in lost[:LISTED]],
            "missing_count": len(lost),
            "invented": list(self.invented[:LISTED]),
            "unknown_ids": list(self.unknown_ids[:LISTED]),
        }


# What items are

_MONTHS = (
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "jan feb mar apr may jun jul aug sep oct nov dec",
)
_MONTH = {name: number for names in _MONTHS for number, name in enumerate(names.split(), start=1)}
_MONTH_NAME = "|".join(sorted(_MONTH, key=len, reverse=True))
_EXTENSIONS = (
    "pdf|docx?|xlsx?|pptx?|csv|tsv|txt|md|html?|json|ya?ml|toml|xml|zip|tar|gz|png|jpe?g|gif|svg|py|js|tsx?|java|go|rs|cpp|c|h"
    "|sh|sql|log|ini|cfg|lock|ipynb"
)
_ITEM = re.compile(
    r"(?P<url>https?://[^\s<>()\[\]\"'“”„]{3,300})"
    r"|(?P<mail>(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4})"
    rf"|(?P<file>\b[\w][\w-]{{0,80}}(?:\.[\w-]{{1,40}}){{0,3}}\.(?:{_EXTENSIONS})\b)"
    r"|(?P<iso>\b\d{4}-\d{2}-\d{2}\b)"
    r"|(?P<dotted>\b\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})\b)"
    rf"|(?P<day>\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?:{_MONTH_NAME})\b\.?(?:,?\s\d{{4}}\b)?)"
    rf"|(?P<month>\b(?:{_MONTH_NAME})\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}}\b)?)"
    r"|(?P<time>\b\d{1,2}:\d{2}(?::\d{2})?\b)"
    r"|(?P<id>\b(?=[\w#/-]{0,80}\d)(?=[\w#/-]{0,80}[^\W\d_])[^\W_][\w]{0,60}(?:[#/-][\w]{1,60}){0,6}\b)"
    r"|(?P<figure>[€$£¥]\s?\d+(?:[.,'’]\d+)*|\b\d+(?:[.,'’]\d+)*\b\s?[%‰€$£¥]?)",
    re.IGNORECASE,
)
_OUR_ID = re.compile(r"\b(?:msg|turn|step|call|sess|file|doc)_[0-9a-z]{1,40}\b")

_GENERAL = re.compile(
    r"\b(?:always|never|from now on|going forward|in (?:the )?future|every time|each time|whenever|by default"
    r"|at all times|immer|niemals|nie|ab jetzt|ab sofort|künftig|in zukunft|jedes mal|grundsätzlich|toujours|jamais"
    r"|désormais|siempre|nunca|a partir de ahora)\b"
    r"|\b(?:answer|reply|respond|write|speak|antworte|antworten sie|schreibe?|sprich)\b.{0,30}?"
    r"\b(?:in|auf|only|nur|with|as)\b",
    re.IGNORECASE,
)
_OF_THE_SPEAKER = re.compile(r"\s*(?:i|we|he|she|they|it|ich|wir|er|sie|es|je|nous|yo)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def _form(kind: str, text: str) -> str | None:
    """What an item has in common with another writing of it; None for what is no item, such as the number of a list."""
    match kind:
        case "figure":
            return _figure(text)
        case "iso":
            return text
        case "dotted":
            day, month, year = text.split(".")
            return f"{int(year) + (2000 if len(year) == 2 else 0):04}-{int(month):02}-{int(day):02}"
        case "day" | "month":
            return _date(text)
        case "url":
            return text.rstrip(".,;:!?").casefold()
        case "id" if _OUR_ID.fullmatch(text):
            return None
        case _:
            return text.casefold()


def _figure(text: str) -> str | None:
    """A figure without its grouping: `1,200` and `1200` are the same; single digits without a unit are none."""
    digits = text.strip("€$£¥%‰ ")
    if re.fullmatch(r"\d{1,3}(?:[.,'’]\d{3})+", digits):
        digits = re.sub(r"\D", "", digits)
    elif found := re.fullmatch(r"(\d{1,3}(?:[,'’]\d{3})*|\d+)\.(\d+)|(\d{1,3}(?:[.'’]\d{3})*|\d+),(\d+)", digits):
        whole, part = found[1] or found[3], found[2] or found[4]
        digits = f"{re.sub(r'[^0-9]', '', whole)}.{part}"
    has_unit = len(digits) < len(text.strip())
    return digits if len(digits) > 1 or has_unit else None


def _date(text: str) -> str:
    """A date with the name of its month, as `2026-03-01`, or `--03-01` where no year is named."""
    words = re.findall(r"[^\W\d_]+|\d+", text.casefold())
    month = next(_MONTH[word] for word in words if word in _MONTH)
    numbers = [int(word) for word in words if word.isdigit()]
    year = next((number for number in numbers if number > 31), None)
    day = next((number for number in numbers if number <= 31), 0)
    return f"{year:04}-{month:02}-{day:02}" if year is not None else f"--{month:02}-{day:02}"


def _found(text: str) -> Iterator[tuple[str, str]]:
    """The items of a text: their forms, and how they are written."""
    for match in _ITEM.finditer(text):
        written = match.group().strip()
        form = _form(str(match.lastgroup), written)
        if form is not None:
            yield form, written


def forms_of(text: str) -> frozenset[str]:
    """The forms of all items of a text."""
    return frozenset(form for form, _ in _found(text))


def ids_of(text: str) -> frozenset[str]:
    """The ids of messages, turns, steps, calls, sessions and files that a text names."""
    return frozenset(_OUR_ID.findall(text))


# What of a source has to be kept


def items_of(turns: Sequence[Turn], kept_tools: Collection[str] = ()) -> tuple[Item, ...]:
    """What a summary of `turns` should hold, the most important first, each form once.

    Results count only of tools whose results are to be kept until a compaction.
    """
    found: dict[str, Item] = {}
    for item in sorted(_items(turns, kept_tools), key=lambda item: item.rank):
        found.setdefault(item.form, item)
        if len(found) == MOST_ITEMS:
            break
    return tuple(found.values())


def _items(turns: Sequence[Turn], kept_tools: Collection[str]) -> Iterator[Item]:
    for turn in turns:
        id = turn.user.id
        for sentence in standing_instructions(turn.user.text):
            yield Item(_words(sentence), sentence, sentence, Rank.STANDING, id)
        for attachment in turn.user.attachments:
            yield Item(attachment.title.casefold(), attachment.title, f"File: {attachment.title}", Rank.USER, id)
        yield from _items_in(turn.user.text, Rank.USER, id)
        for step in turn.steps:
            yield from _items_in(step.text, Rank.ANSWER, id)
            for result in step.results:
                if result.name in kept_tools:
                    yield from _items_in(result.content, Rank.RESULT, id)


def _items_in(text: str, rank: Rank, message_id: str) -> Iterator[Item]:
    for sentence in _sentences(text):
        for form, written in _found(sentence):
            yield Item(form, written, _around(sentence, written), rank, message_id)


def standing_instructions(text: str) -> tuple[str, ...]:
    """The sentences of a user's message that ask for something in general: a language, a form, what never to do."""
    return tuple(
        sentence
        for sentence in _sentences(text)
        if len(sentence) <= SENTENCE
        and not sentence.endswith("?")
        and _GENERAL.search(sentence)
        and not _OF_THE_SPEAKER.match(sentence)
    )


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def _around(sentence: str, written: str) -> str:
    """The sentence, or of a long one what stands around the item."""
    if len(sentence) <= SENTENCE:
        return sentence
    at = max(sentence.find(written), 0)
    start = max(0, min(at - SENTENCE // 2, len(sentence) - SENTENCE))
    end = max(start + SENTENCE, at + len(written))
    return f"{'…' if start else ''}{sentence[start:end].strip()}{'…' if end < len(sentence) else ''}"


def _words(text: str) -> str:
    """A text as it is compared literally: without the accidents of blanks, quotation marks, capitals and its end."""
    return " ".join(re.sub(r"[\"'“”„‘’«»*_`]", "", text).casefold().split()).rstrip(" .!,;")


# The comparison


def compared(summary: str, items: Sequence[Item], known: Collection[str], ids: Collection[str]) -> Check:
    """Compare a summary with its source: `known` are the forms of all that the summariser saw, `ids` the messages."""
    forms, words = forms_of(summary), _words(summary)
    missing = tuple(item for item in items if item.form not in forms and _words(item.text) not in words)
    invented = dict.fromkeys(written for form, written in _found(summary) if form not in known)
    unknown = dict.fromkeys(id for id in _OUR_ID.findall(summary) if id not in ids)
    return Check(len(items), missing, tuple(invented), tuple(unknown))


def with_missing(summary: str, check: Check, room: int) -> tuple[str, Check]:
    """The summary with what is missing added word for word, as far as `room` local tokens allow."""
    lines: list[str] = []
    have = ""
    for item in check.missing:
        if _words(item.text) in have:
            continue
        line = f"- kept literally: “{item.sentence}” [{item.message_id}]"
        if count_tokens("\n".join([KEPT_HEADING, *lines, line])) <= room:
            lines.append(line)
            have += f"\n{_words(item.sentence)}"
    if not lines:
        return summary, check
    made = "\n".join([summary, "", KEPT_HEADING, *lines])
    kept = tuple(item for item in check.missing if _words(item.text) in have)
    return made, Check(check.items, check.missing, check.invented, check.unknown_ids, kept)
