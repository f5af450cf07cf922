"""How a summary compares with what it stands for: what of it is missing, and what is in no source. Mechanical and pure.

It compares items that every writer spells the same: figures, dates, identifiers, addresses and file names, and
what the user asked for in general, word for word. A log has hundreds of them, so an item counts by its use: that the
user wants it remembered, that a later call needed it, that somebody said it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache

from lamella.core.counting import count_tokens
from lamella.core.json import JsonObject
from lamella.core.messages import Turn

MOST_ITEMS = 100
"""Items of a source that are looked for, the most important first."""

LISTED = 40
"""Items of one kind that a check names."""

FEWEST = 5
"""Items of a source from which on a summary that holds none of them is bad."""

FEW = 12
"""Items in one text from which on it is a listing, such as a log: of those only what is used counts."""

SENTENCE = 240
"""Characters of a sentence that is kept literally."""

LITERAL_TOKENS = 200
"""Local tokens that may be added to a summary word for word."""

LITERAL_SHARE = 0.2
"""The share of a summary that may be added to it, but for what the user asked for in general or to remember."""

KEPT_HEADING = "# Kept literally"


class Rank(IntEnum):
    """How important it is that an item is in the summary, by its use; lower is more."""

    STANDING = 0
    """What the user asked for in general."""

    REMEMBER = 1
    """What the user asked to remember."""

    CALLED = 2
    """In the arguments of a call of a later turn."""

    AGREED = 3
    """Said by the user, and in an answer."""

    ANSWERED = 4
    """In a result, and in the answer of the same turn."""

    USER = 5
    """Said by the user alone."""

    ANSWER = 6
    RESULT = 7
    """In a result alone."""

    PROSE = 8
    """Of a line of a summary: no item is in it."""


TOP = Rank.REMEMBER
"""What a summary is asked for again without."""


@dataclass(frozen=True, slots=True)
class CheckedItem:
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
    missing: tuple[CheckedItem, ...] = ()
    invented: tuple[str, ...] = ()
    unknown_ids: tuple[str, ...] = ()
    kept: tuple[CheckedItem, ...] = field(default=())

    @property
    def is_bad(self) -> bool:
        """Whether asking again may be worth its price: what the user asked for in general or to remember is missing, or
        nothing at all was found."""
        return self.missing_top > 0 or self.items == len(self.missing) >= FEWEST

    @property
    def missing_top(self) -> int:
        """How many of the missing items the user asked for in general, or to remember."""
        return sum(item.rank <= TOP for item in self.missing)

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
_SOLID = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Letters of languages that put no blanks between words: an item ends where they begin."""
_W = rf"[^\W{_SOLID}]"
_L = rf"[^\W\d_{_SOLID}]"
_A, _Z = f"(?<!{_W})", f"(?!{_W})"
"""Where an item may begin and end."""
_PLAIN = rf"(?:{_A}(?!(?:{_MONTH_NAME})\b){_L}{{1,61}}+(?=\.?(?![\w.+@#/:-]))\.?[\s,;!?()\"“”„]*+)+"
"""Words that no item begins with, and what stands between them. Most of a text is that: it is read in one step."""


@cache
def _item() -> re.Pattern[str]:
    """Compiled when a summary is first checked: it takes longer than any other module takes to load."""
    return re.compile(
        rf"{_PLAIN}"
        r"|(?P<url>https?://[^\s<>()\[\]\"'“”„，。、）]{3,300})"
        rf"|(?P<mail>(?<![\w.+-])[\w.+-]{{1,64}}@{_W}[\w-]{{0,64}}(?:\.{_W}{{1,64}}){{1,4}})"
        rf"|(?P<file>{_A}{_W}(?:{_W}|-){{0,80}}(?:\.(?:{_W}|-){{1,40}}){{0,3}}\.(?:{_EXTENSIONS}){_Z})"
        rf"|(?P<iso>{_A}\d{{4}}-\d{{2}}-\d{{2}}{_Z})"
        rf"|(?P<dotted>{_A}\d{{1,2}}\.\d{{1,2}}\.(?:\d{{4}}|\d{{2}}){_Z})"
        rf"|(?P<day>{_A}\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?:{_MONTH_NAME})\b\.?(?:,?\s\d{{4}}\b)?)"
        rf"|(?P<month>{_A}(?:{_MONTH_NAME})\b\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}}\b)?)"
        rf"|(?P<time>{_A}\d{{1,2}}:\d{{2}}(?::\d{{2}})?{_Z})"
        rf"|(?P<id>{_A}(?!_)(?=[\d_#/-]{{0,80}}{_L}){_W}{{1,61}}(?:[#/-]{_W}{{1,60}}){{0,6}}{_Z})"
        rf"|(?P<figure>[€$£¥]\s?\d+(?:[.,'’]\d+)*|{_A}\d+(?:[.,'’]\d+)*{_Z}\s?[%‰€$£¥]?)",
        re.IGNORECASE,
    )


_DIGIT = re.compile(r"\d")
_OUR_ID = re.compile(r"\b(?:msg|turn|step|call|sess|file|doc)_[0-9a-z]{1,40}\b")

_GENERAL = re.compile(
    r"\b(?:always|never|from now on|going forward|in (?:the )?future|every time|each time|whenever|by default"
    r"|at all times|immer|niemals|nie|ab jetzt|ab sofort|künftig|in zukunft|jedes mal|grundsätzlich|toujours|jamais"
    r"|désormais|siempre|nunca|a partir de ahora|sempre|mai più|d'ora in poi|всегда|никогда|впредь|zawsze|nigdy|altijd"
    r"|nooit|voortaan)\b"
    r"|\b(?:answer|reply|respond|write|speak|antworte|antworten sie|schreibe?|sprich)\b.{0,30}?"
    r"\b(?:in|auf|only|nur|with|as)\b"
    r"|总是|始终|务必|从现在起|从现在开始|以后都|今后|不要再|请用.{1,8}回答|必ず|今後は|いつも|で(?:答えて|返事)|항상|앞으로",
    re.IGNORECASE,
)
_REMEMBER = re.compile(
    r"\b(?:remember|keep in mind|bear in mind|(?:do not|don['’]t) forget|note (?:down|that)|make a note"
    r"|merke? dir|merken sie sich|vergiss nicht|vergessen sie nicht|denke? daran|notiere"
    r"|retiens|retenez|souviens-toi|n['’]oublie[z]? pas|note[z]? que|recuerda|recuerde|no olvides|ten en cuenta|anota"
    r"|ricorda|ricordati|non dimenticare|lembre|não (?:se )?esqueça|запомни(?:те)?|помни(?:те)?|не забудь(?:те)?"
    r"|zapamiętaj|nie zapomnij|onthoud|vergeet niet)\b"
    r"|记住|请记|记下|别忘|不要忘|覚えて|忘れない|メモして|기억해|잊지 마",
    re.IGNORECASE,
)
_OF_THE_SPEAKER = re.compile(r"\s*(?:i|we|he|she|they|it|ich|wir|er|sie|es|je|nous|yo)\b", re.IGNORECASE)
_SAID_OF_THEM = re.compile(
    r"\b(?:i|we|he|she|they|ich|wir|je|nous)(?:['’](?:ve|m|re|d|ll))?"
    r"(?:\s+(?:have|has|had|do|does|did|can|could|will|would|was|were|am|are|also|still|really|cannot|habe|haben"
    r"|(?:do|does|did|ca|could|have|has|had|wo|would)n['’]t|not))*\s+$",
    re.IGNORECASE,
)
"""What stands before such a word where somebody tells of themselves: "Sorry, I don't remember it"."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


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
        case "id" if _OUR_ID.fullmatch(text) or not _DIGIT.search(text):
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
    for match in _item().finditer(text):
        if match.lastgroup is not None:
            written = match.group().strip()
            form = _form(match.lastgroup, written)
            if form is not None:
                yield form, written


def forms_of(text: str) -> frozenset[str]:
    """The forms of all items of a text."""
    return frozenset(form for form, _ in _found(text))


def forms_used(turns: Sequence[Turn]) -> frozenset[str]:
    """The forms of what users said in these turns, and of the arguments of calls."""
    texts = [turn.user.text for turn in turns]
    texts += [call.arguments for turn in turns for step in turn.steps for call in step.calls]
    return frozenset[str]().union(*map(forms_of, texts))


def ids_of(text: str) -> frozenset[str]:
    """The ids of messages, turns, steps, calls, sessions and files that a text names."""
    return frozenset(_OUR_ID.findall(text))


# What of a source has to be kept


def items_of(turns: Sequence[Turn], kept_tools: Collection[str] = ()) -> tuple[CheckedItem, ...]:
    """What a summary of `turns` should hold, the most important first, each form once.

    What is only in a result counts only of tools whose results are to be kept until a compaction; and what is said once
    in a listing does not count at all.
    """
    return _ranked(turns, _uses(turns), kept_tools)


def _ranked(turns: Sequence[Turn], uses: Uses, kept_tools: Collection[str]) -> tuple[CheckedItem, ...]:
    found: dict[str, CheckedItem] = {}
    for item in sorted(_items(turns, uses, kept_tools), key=lambda item: item.rank):
        found.setdefault(item.form, item)
        if len(found) == MOST_ITEMS:
            break
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Uses:
    """What became of the items of some turns: the turn in which each form was first there, and in which it was last in
    the arguments of a call, by their numbers; and the forms that were said by whom."""

    first: Mapping[str, int]
    called: Mapping[str, int]
    user: Collection[str]
    answers: Collection[str]
    answered: Collection[str]

    def rank(self, form: str) -> Rank:
        """How important a form is."""
        if self.called.get(form, -1) > self.first.get(form, 0):
            return Rank.CALLED
        if form in self.user:
            return Rank.AGREED if form in self.answers else Rank.USER
        if form in self.answered:
            return Rank.ANSWERED
        return Rank.ANSWER if form in self.answers else Rank.RESULT


def _uses(turns: Sequence[Turn]) -> Uses:
    """Reads everything once."""
    first: dict[str, int] = {}
    called: dict[str, int] = {}
    user: set[str] = set()
    answers: set[str] = set()
    answered: set[str] = set()
    for number, turn in enumerate(turns):
        asked = forms_of(turn.user.text)
        said = frozenset[str]().union(*(forms_of(step.text) for step in turn.steps))
        got = frozenset[str]().union(*(forms_of(r.content) for step in turn.steps for r in step.results))
        used = frozenset[str]().union(*(forms_of(call.arguments) for step in turn.steps for call in step.calls))
        for form in (*asked, *said, *got, *used):
            first.setdefault(form, number)
        called |= dict.fromkeys(used, number)
        user |= asked
        answers |= said
        answered |= said & got
    return Uses(first, called, user, answers, answered)


def _items(turns: Sequence[Turn], uses: Uses, kept_tools: Collection[str]) -> Iterator[CheckedItem]:
    for turn in turns:
        id = turn.user.id
        yield from _asked_for(turn)
        for attachment in turn.user.attachments:
            yield CheckedItem(attachment.title.casefold(), attachment.title, f"File: {attachment.title}", Rank.USER, id)
        yield from _items_in(turn.user.text, uses, id)
        for step in turn.steps:
            yield from _items_in(step.text, uses, id)
            for result in step.results:
                yield from _items_in(result.content, uses, id, result.name in kept_tools)


def _asked_for(turn: Turn) -> Iterator[CheckedItem]:
    """What the user asked for in general, or to remember: nothing else has a rank up to `TOP`."""
    for sentence in standing_instructions(turn.user.text):
        yield CheckedItem(_words(sentence), sentence, sentence, Rank.STANDING, turn.user.id)
    yield from _remembered(turn.user.text, turn.user.id)


def _items_in(text: str, uses: Uses, message_id: str, alone: bool = True) -> Iterator[CheckedItem]:
    """The items of a text by their use; `alone`: also those that are only in a result."""
    most = Rank.RESULT if alone else Rank.ANSWERED
    if len(forms_of(text)) > FEW:
        most = Rank.ANSWERED
    for sentence in _sentences(text):
        for form, written in _found(sentence):
            if (rank := uses.rank(form)) <= most:
                yield CheckedItem(form, written, _around(sentence, written), rank, message_id)


def _remembered(text: str, message_id: str) -> Iterator[CheckedItem]:
    """What of a user's message is to be remembered: the items of the sentence that says so, or all of it."""
    for sentence in _asking(text, _REMEMBER):
        found = [CheckedItem(form, written, sentence, Rank.REMEMBER, message_id) for form, written in _found(sentence)]
        yield from found or [CheckedItem(_words(sentence), sentence, sentence, Rank.REMEMBER, message_id)]


def line_ranks(summary: str, turns: Sequence[Turn]) -> tuple[Rank, ...]:
    """How important each line of a summary of `turns` is, by what is in it."""
    uses = _uses(turns)
    asked = [item for turn in turns for item in _asked_for(turn)]
    return tuple(_line_rank(line, uses, asked) for line in summary.split("\n"))


def _line_rank(line: str, uses: Uses, asked: Sequence[CheckedItem]) -> Rank:
    """`asked` is what the user asked for in general, or to remember."""
    forms, said = forms_of(line), _words(line)
    ranks = [i.rank for i in asked if (i.form in said if i.text == i.sentence else i.form in forms)]
    return min([*ranks, *map(uses.rank, forms)], default=Rank.PROSE)


def standing_instructions(text: str) -> tuple[str, ...]:
    """The sentences of a user's message that ask for something in general: a language, a form, what never to do."""
    return _asking(text, _GENERAL)


def _asking(text: str, words: re.Pattern[str]) -> tuple[str, ...]:
    """The sentences that ask for something with such words; lines full of items are quoted from somewhere."""
    return tuple(
        sentence
        for sentence in _sentences(text)
        if len(sentence) <= SENTENCE
        and not sentence.endswith(("?", "？"))
        and any(not _SAID_OF_THEM.search(sentence[: found.start()]) for found in words.finditer(sentence))
        and not _OF_THE_SPEAKER.match(sentence)
        and len(forms_of(sentence)) <= FEW // 3
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


def compared(summary: str, items: Sequence[CheckedItem], known: Collection[str], ids: Collection[str]) -> Check:
    """Compare a summary with its source: `known` are the forms of all that the summariser saw, `ids` the messages."""
    forms, words = forms_of(summary), _words(summary)
    missing = tuple(item for item in items if item.form not in forms and _words(item.text) not in words)
    invented = dict.fromkeys(written for form, written in _found(summary) if form not in known)
    unknown = dict.fromkeys(id for id in _OUR_ID.findall(summary) if id not in ids)
    return Check(len(items), missing, tuple(invented), tuple(unknown))


def with_missing(summary: str, check: Check, room: int) -> tuple[str, Check]:
    """The summary with what is missing added word for word, the most important first, within `room` local tokens.

    What the user did not ask for in general, or to remember, is at most `LITERAL_SHARE` of the summary.
    """
    lines: list[str] = []
    have = ""
    most = min(room, int(count_tokens(summary) * LITERAL_SHARE))
    for item in check.missing:
        if _words(item.text) in have:
            continue
        line = f"- kept literally: “{item.sentence}” [{item.message_id}]"
        added = count_tokens("\n".join([KEPT_HEADING, *lines, line]))
        if added <= (room if item.rank <= TOP else most):
            lines.append(line)
            have += f"\n{_words(item.sentence)}"
    if not lines:
        return summary, check
    made = "\n".join([summary, "", KEPT_HEADING, *lines])
    kept = tuple(item for item in check.missing if _words(item.text) in have)
    return made, Check(check.items, check.missing, check.invented, check.unknown_ids, kept)
