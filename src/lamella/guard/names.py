"""Where in a line a name stands: by a capital, by what announces it, and by what persons do.

    Project Falcon, Dr Stone, 代号猎鹰, Stone Ltd, 王先生     an announcement before it, a title or form after it
    Maria Fuchs, 雨宮橙子                                a first name or surname of the language, and what follows it
    Fuchs asks for time, 泉は…と述べた                   an ordinary word that is a name too, and does what persons do

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lamella.guard.lexicon import Lexicon, Token, TokenKind

SENTENCE_ENDS = frozenset(".!?…。！？:：")
QUOTES = frozenset("\"'“”„‚‘’«»‹›「」『』《》〈〉()（）[]*")
_OPENING = frozenset('“„‚‘«‹「『《〈"')

STRONG = frozenset(
    {"代号", "名为", "名叫", "叫做", "コードネーム", "という名前", "code name", "codename", "кодовое имя"}
)
"""Announcements after which an ordinary word is a name too, in writing without capitals."""

ORDINARY = 4.0
"""Frequency (zipf) from which a capital after a determiner, or in a row of capitals, tells nothing of a word."""

_CALLED = frozenset({"为", "是", "叫", "は"})
"""Words between an announcement and the name: 代号为猎鹰."""

POLITE = frozenset({"様", "さん", "氏", "先生", "女士", "小姐"})
"""Forms of address: the word before one is a name, though it is an ordinary word elsewhere."""

LONGEST_SHORT_FORM = 4
"""Letters of an announcement that is cut short with a dot: Dr., Prof."""

LONGEST_NAME = 4
"""Words of a name, or characters of a Chinese one."""

COMMON_WORD = 5.0
"""Frequency (zipf) from which a Chinese word before a title is no name: 项目经理, but 黄河主任."""


class PlacedToken(NamedTuple):
    """A word token and where it stands. `starts`: at the beginning of a sentence, line or cell; `cell`: of a line or
    cell, which may be no sentence (a bullet, a table).
    """

    token: Token
    starts: bool
    cell: bool


def placed(found: Iterable[Token], lexicon: Lexicon) -> Iterator[PlacedToken]:
    """The tokens of a text with their places; runs of characters are cut into words."""
    starts, cell = True, True
    for token in found:
        if token.kind is TokenKind.WORD:
            for word in lexicon.words_of(token):
                yield PlacedToken(word, starts, cell and starts)
                starts = False
            continue
        yield PlacedToken(token, starts, cell and starts)
        if token.kind is TokenKind.BREAK or token.text == "|":
            starts, cell = True, True
        elif token.text in SENTENCE_ENDS:
            starts, cell = True, False
        elif token.kind is not TokenKind.MARK:
            starts = False


def named_places(line: Sequence[PlacedToken], lexicon: Lexicon) -> frozenset[int]:
    """The places of a line at which a name stands, by its capital or by what stands next to it."""
    found: set[int] = set()
    if lexicon.language.has_spaces:
        found.update(at for at, place in enumerate(line) if _has_telling_capital(place, lexicon))
    if lexicon.code == "de":
        found.update(_acting(line, lexicon))
        found.update(_bare(line, lexicon))
    elif lexicon.language.ordinary_names:
        found.update(_doing(line, lexicon))
    found.update(_announced(line, lexicon))
    found.update(_persons(line, lexicon))
    return frozenset(found)


def _has_telling_capital(place: PlacedToken, lexicon: Lexicon) -> bool:
    token = place.token
    if token.kind is not TokenKind.WORD or not token.is_capital or place.starts or token.is_shouted:
        return False
    spoken = lexicon.language
    if token.key in spoken.function_words or token.key in spoken.written:
        return False
    return lexicon.code != "de" or _is_unlike_noun(token.key, lexicon)


def _is_unlike_noun(key: str, lexicon: Lexicon) -> bool:
    """Whether German has no reason to write a word with a capital: it is no noun, infinitive or adjective."""
    if lexicon.is_noun(key) or key.endswith(("e", "en", "er", "es", "em", "ern", "eln")):
        return False
    parts = lexicon.parts(key)
    return not (parts and lexicon.is_noun(parts[-1]))


def _acting(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """German nouns that act as persons do, without a determiner at the start of a clause: `Sommer hat Bedenken`."""
    spoken = lexicon.language
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD or not token.is_capital or at + 1 == len(line):
            continue
        begins = place.starts or line[at - 1].token.text == ","
        if begins and token.key in lexicon.nouns and not token.key.endswith(spoken.noun_suffixes):
            following = line[at + 1].token.key
            if following in spoken.person_verbs or (following == "," and line[at - 1].token.text == "," and at):
                yield at


def _bare(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """German surnames that are ordinary words, without what stands before a thing: `meldet Wolf`, but `der Wolf`."""
    spoken = lexicon.language
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD or not token.is_capital or token.is_shouted:
            continue
        if token.key not in spoken.ordinary_names and token.key.removesuffix("s") not in spoken.ordinary_names:
            continue
        before = line[at - 1].token if at else None
        if place.starts:
            # An adjective at the start of a sentence has a noun after it: `Lang anhaltender Regen`, `Klein und Groß`.
            following = line[at + 1].token if at + 1 < len(line) else None
            apposed = following is not None and following.text == ","
            if token.key in lexicon.nouns or apposed or (following and following.key in spoken.person_verbs):
                yield at
        elif before is None or not _leads_to_thing(before, lexicon):
            yield at


def _leads_to_thing(before: Token, lexicon: Lexicon) -> bool:
    """Whether a word stands before things: an article, a pronoun, an adjective, a preposition of a state."""
    spoken, key = lexicon.language, before.key
    if before.kind is TokenKind.DIGITS or key in spoken.determiners or key in _GERMAN_STATES:
        return True
    return before.kind is TokenKind.WORD and not before.is_capital and _is_inflected_adjective(key, lexicon)


def _is_inflected_adjective(key: str, lexicon: Lexicon) -> bool:
    """Whether a German word has an ending of adjectives and takes the others too: kleinen, kleines; not zahlen."""
    for ending in ("en", "em", "er", "es", "e"):
        if key.endswith(ending):
            stem = key.removesuffix(ending)
            return len(stem) > 1 and all(lexicon.frequency(stem + other) for other in ("er", "es"))
    return False


_GERMAN_STATES = frozenset(
    {"als", "wie", "pro", "je", "kein", "mein", "dein", "sein", "euer", "beim", "ins", "ans", "aufs", "zu"}
)


def _announced(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """Names after an announcement (Project Falcon) and before a title or form (Stone Ltd, 王先生)."""
    spoken = lexicon.language
    between = " " if spoken.has_spaces else ""
    keys = [place.token.key for place in line]
    for at, key in enumerate(keys):
        if (key if spoken.has_spaces else key[:1]) not in spoken.announcing:
            continue
        for length in range(1, min(3, len(line) - at) + 1):
            said = between.join(keys[at : at + length])
            if said in spoken.name_triggers:
                yield from _name_after(line, at + length, lexicon, strong=said in STRONG)
            if said in spoken.name_followers:
                yield from _name_before(line, at, lexicon, certain=said in POLITE)


def _name_after(line: Sequence[PlacedToken], at: int, lexicon: Lexicon, *, strong: bool) -> Iterator[int]:
    quoted = False
    between = QUOTES | {":", "："} | ({"."} if len(line[at - 1].token.key) <= LONGEST_SHORT_FORM else set())
    while at < len(line) and (line[at].token.text in between or line[at].token.key in _CALLED):
        quoted = quoted or line[at].token.text in _OPENING
        at += 1
    for place in range(at, min(at + LONGEST_NAME, len(line))):
        token = line[place].token
        if token.kind is not TokenKind.WORD or token.key in lexicon.language.function_words:
            break
        if lexicon.language.has_spaces and not token.is_capital:
            break
        if not lexicon.language.has_spaces and not (quoted or strong or lexicon.frequency(token.key) < ORDINARY):
            break
        yield place
        if strong and not quoted and not lexicon.language.has_spaces and place > at:
            break


def _name_before(line: Sequence[PlacedToken], at: int, lexicon: Lexicon, *, certain: bool) -> Iterator[int]:
    for place in range(at - 1, max(at - 1 - LONGEST_NAME, -1), -1):
        token = line[place].token
        if token.kind is not TokenKind.WORD or token.key in lexicon.language.function_words:
            break
        if lexicon.language.has_spaces and not token.is_capital:
            break
        if not lexicon.language.has_spaces and not (certain or _may_be_name(token.key, lexicon)):
            break
        certain = False
        yield place


def _may_be_name(key: str, lexicon: Lexicon) -> bool:
    """Whether characters before a title (先生, さん) are a name: a surname, or no listed word."""
    spoken = lexicon.language
    if key in lexicon.names or key in spoken.surnames or not lexicon.is_listed(key) or len(key) == 1:
        return True
    return key[0] in spoken.surnames and len(key) < LONGEST_NAME and lexicon.frequency(key) < COMMON_WORD


def _persons(line: Sequence[PlacedToken], lexicon: Lexicon) -> Iterator[int]:
    """Persons by their names: a first name or surname of the language, and the names next to it."""
    spoken = lexicon.language
    for at, place in enumerate(line):
        token = place.token
        if token.kind is not TokenKind.WORD:
            continue
        if spoken.has_spaces:
            if token.is_capital and token.key in lexicon.names and not token.is_shouted:
                yield at
                yield from _name_after(line, at + 1, lexicon, strong=False) if not _ends(line, at) else ()
        elif spoken.code == "ja" and _before_given_name(line, at, lexicon):
            yield from (at, at + 1)
        elif token.key in spoken.first_names or (
            token.key in spoken.surnames and (spoken.code == "ja" or _given(line, at, lexicon))
        ):
            yield at
            if token.key in spoken.surnames:
                yield from range(at + 1, at + 1 + _given(line, at, lexicon))


def _doing(line: Sequence[PlacedToken], lexicon: Lexicon) -> set[int]:
    """Chinese and Japanese names that are ordinary words, by what persons do and by whom they are said to be."""
    does = _does_japanese if lexicon.code == "ja" else _does_chinese
    persons: dict[int, int] = {}
    for at, place in enumerate(line):
        if place.token.kind is TokenKind.WORD and (length := _person_at(line, at, lexicon)):
            persons[at] = at + length
    found: set[int] = set()
    for at, end in persons.items():
        if _follows_role(line, at, end, lexicon) or (end < len(line) and does(line, at, end, lexicon)):
            found.update(range(at, end))
    for at, end in persons.items():
        # `堀と谷が立ち会った`: who is named together with a person is a person.
        before = at > 1 and at - 2 in found and line[at - 1].token.text in _TOGETHER and _is_over(line, end)
        if before or (end + 1 in found and line[end].token.text in _TOGETHER):
            found.update(range(at, end))
    return found


_TOGETHER = frozenset({"和", "与", "及", "と", "や", "、", "・"})


def _is_over(line: Sequence[PlacedToken], end: int) -> bool:
    """Whether no other noun goes on after a name."""
    if end == len(line) or line[end].token.kind is not TokenKind.WORD:
        return True
    return line[end].token.key in _AFTER_PERSON


def _person_at(line: Sequence[PlacedToken], at: int, lexicon: Lexicon) -> int:
    """How many words from here on may be a person's name: one, or two Chinese characters that are words alone."""
    spoken, key = lexicon.language, line[at].token.key
    if key in spoken.ordinary_names or key in spoken.first_names:
        return 1
    if lexicon.code != "zh":
        return 0
    if len(key) == 2 and key[0] in spoken.surnames and lexicon.frequency(key) < ORDINARY:
        return 1
    following = line[at + 1].token if at + 1 < len(line) else None
    pair = len(key) == 1 and following is not None and following.kind is TokenKind.WORD and len(following.key) == 1
    return 2 if pair and key not in spoken.function_words else 0


def _follows_role(line: Sequence[PlacedToken], at: int, end: int, lexicon: Lexicon) -> bool:
    """Whether whom the name belongs to stands before it: 护士白雪, 担当は泉, 主治医の光."""
    if not at:
        return False
    before = line[at - 1].token
    if lexicon.code == "zh":
        return before.key in lexicon.language.roles
    if before.text in _ROLE_MARKS and at > 1:
        return line[at - 2].token.key in lexicon.language.roles and _is_over(line, end)
    return before.key in lexicon.language.roles


_ROLE_MARKS = frozenset({"は", "：", ":", "の", "、", "・"})
_AFTER_PERSON = frozenset(
    {"が", "は", "で", "と", "に", "へ", "を", "も", "から", "です", "だ", "である", "や", "さん", "氏"}
)
_TOLD = frozenset({"に", "へ", "と", "から", "より"})
_BEFORE_DOING = frozenset(
    {
        "已",
        "已经",
        "将",
        "会",
        "要",
        "也",
        "没有",
        "不",
        "曾",
        "曾经",
        "正在",
        "正",
        "可以",
        "必须",
        "应",
        "应该",
        "都",
        "又",
        "还",
        "再次",
    }
)
_WITH_PERSON = frozenset({"由", "和", "与", "跟", "向", "请", "让", "给", "对", "被", "叫", "派", "找", "及", "同"})


def _does_chinese(line: Sequence[PlacedToken], at: int, end: int, lexicon: Lexicon) -> bool:
    """Whether a verb of persons follows at the start of a clause or after 由, 和: 高峰要求, 由白雪负责."""
    before = line[at - 1].token if at else None
    if not (line[at].starts or before is None or before.kind is TokenKind.MARK or before.key in _WITH_PERSON):
        return False
    if line[end].token.key in _BEFORE_DOING and end + 1 < len(line):
        end += 1
    return line[end].token.key in lexicon.language.person_verbs


def _does_japanese(line: Sequence[PlacedToken], at: int, end: int, lexicon: Lexicon) -> bool:
    """Whether the name is the topic or subject of what persons do, or is told something: 泉は…と述べた, 泉に連絡."""
    particle, verbs = line[end].token.key, lexicon.language.person_verbs
    if particle in _TOLD:
        return end + 1 < len(line) and line[end + 1].token.key in verbs
    before = line[at - 1].token if at else None
    begins = line[at].starts or before is None or before.kind is TokenKind.MARK
    if particle == "が" and before is not None:
        begins = begins or before.key in lexicon.language.function_words
    if particle not in ("は", "が", "も") or not begins:
        return False
    clause: list[str] = []
    for place in line[end + 1 :]:
        if place.token.text in SENTENCE_ENDS or (particle == "が" and place.token.text in "、,"):
            break
        clause.append(place.token.key)
    if "が" in clause and "と" not in clause:
        return False  # `質は担当者が確認した`: another does it
    return any(key in verbs for key in clause[-LONGEST_PREDICATE:])


LONGEST_PREDICATE = 7
"""Words at the end of a Japanese clause that may be its verb and what is added to it: 連絡 し て い まし た."""


def _ends(line: Sequence[PlacedToken], at: int) -> bool:
    return at + 1 < len(line) and line[at + 1].token.kind is not TokenKind.WORD


def _given(line: Sequence[PlacedToken], at: int, lexicon: Lexicon) -> int:
    """How many words of a given name follow a surname: one or two characters, a first name, an unlisted word."""
    following = [place.token for place in line[at + 1 : at + 3]]
    if not following or following[0].kind is not TokenKind.WORD:
        return 0
    first = following[0]
    surname = line[at].token.key
    if first.key in lexicon.language.first_names or (len(first.key) <= 2 and not lexicon.is_listed(first.key)):
        lone = len(first.key) == 1 and len(following) > 1 and following[1].kind is TokenKind.WORD
        return 2 if lone and len(following[1].key) == 1 and not lexicon.is_listed(following[1].key) else 1
    if len(surname) > 1 and 1 <= len(first.key) <= 2 and first.key not in lexicon.language.function_words:
        return int(_is_han(first.key))
    return 0


_GIVEN_ENDINGS = tuple("子美香奈恵代江郎雄夫男彦也哉介助樹人斗太平之治司士志史朗吾真輝翔")
"""What many Japanese given names end in."""


def _before_given_name(line: Sequence[PlacedToken], at: int, lexicon: Lexicon) -> bool:
    """Whether a rare Japanese word of two characters stands before an unlisted given name: a surname in no list."""
    key = line[at].token.key
    if len(key) != 2 or not _is_han(key) or lexicon.frequency(key) >= ORDINARY or at + 1 == len(line):
        return False
    given = line[at + 1].token.key
    return 2 <= len(given) <= 3 and given.endswith(_GIVEN_ENDINGS) and _is_han(given) and not lexicon.is_listed(given)


def _is_han(key: str) -> bool:
    return all("\u4e00" <= character <= "\u9fff" for character in key)
