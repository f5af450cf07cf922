"""What a question wants: an answer, a summary, a title, or only a greeting; and the words to look for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lamella_simulator.answerer.ranking import Query
from lamella_simulator.answerer.words import words

Wish = Literal["answer", "summary", "title", "greeting", "thanks"]
SUMMARY = re.compile(
    r"\b(summar\w*|overview|tl;?dr|gist|key (?:points|takeaways|facts)|main (?:points|ideas?)|abstract of|recap"
    r"|what(?:'s| is| are) (?:\w+ ){0,4}about|what(?:'s| is) in (?:this|the|my|it)|zusammenfass\w*|fasse?\b.*\bzusammen"
    r"|überblick|worum geht|kernaussagen?|résum\w*|de quoi (?:parle|s'agit)|resum\w*|de qué (?:trata|va)|riassun\w*"
    r"|di cosa (?:parla|tratta)|do que se trata|samenvat\w*|кратк\w*|резюм\w*|о чём|о чем)\b"
    r"|要約|まとめて|概要|总结|總結|摘要|概述|요약",
    re.IGNORECASE,
)
TITLE = re.compile(r"\b(?:title|name)\b.{0,60}\b(?:conversation|chat|dialogue|exchange)\b", re.IGNORECASE | re.DOTALL)
GREETING = re.compile(
    r"\A\W*(hi|hello|hey|good (?:morning|afternoon|evening|day)|hallo|guten (?:tag|morgen|abend)|moin|servus|bonjour"
    r"|salut|hola|buenos días|ciao|olá|привет|здравствуйте|добрый день"
    r"|こんにちは|你好|您好|안녕하세요)\b[\w\s,!.]{0,24}\W*\Z",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"\A\W*(thanks?(?: you)?|thx|great|ok(?:ay)?|perfect|danke(?: schön)?|merci|gracias|grazie|obrigad[oa]|спасибо"
    r"|ありがとう\w*|谢谢|감사합니다)\b[\w\s,!.]{0,24}\W*\Z",
    re.IGNORECASE,
)
FOLLOW_UP = re.compile(
    r"\A\W*(and|but|so|then|what about|how about|also|und|aber|et|y|e|а|и)\b|\b(it|its|that|those|they|them|this one"
    r"|the (?:first|second|third|fourth|fifth|other|last|next) one|same|dazu|davon|dort)\b",
    re.IGNORECASE,
)
ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "erste": 1, "zweite": 2, "dritte": 3,
    "premier": 1, "première": 1, "deuxième": 2, "troisième": 3, "primero": 1, "segundo": 2, "tercero": 3,
    "primera": 1, "segunda": 2, "tercera": 3, "первый": 1, "второй": 2, "третий": 3,
}  # fmt: skip
THING = "one|document|file|doc|pdf|text|report|dokument|datei|fichier|documento|документ|файл"
ORDINAL = re.compile(
    rf"\b({'|'.join(ORDINALS)})n?\b(?=\s+(?:{THING})\b|\W*\Z)|\b(?:document|file|doc|dokument|datei)\s+#?(\d{{1,2}})\b",
    re.IGNORECASE,
)
EARLIER_WEIGHT = 0.35
FEW_WORDS = 3


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    wish: Wish
    query: Query
    ordinal: int | None
    """The place of a document that the question names: "the second one", "document 3"."""


def understand(questions: Sequence[str]) -> Question:
    """The last of a conversation's questions; earlier ones lend their words when it is a follow-up."""
    text = questions[-1] if questions else ""
    own = [stem for stem in words(text) if stem not in ORDINAL_STEMS]
    weights: dict[str, float] = dict.fromkeys(own, 1.0)
    if len(own) <= FEW_WORDS and (not own or FOLLOW_UP.search(text)):
        for distance, earlier in enumerate(reversed(questions[:-1][-2:]), start=1):
            for stem in words(earlier):
                weights.setdefault(stem, EARLIER_WEIGHT / distance if own else 1.0 / distance)
    return Question(text, wish_of(text), Query(weights), ordinal_of(text))


def wish_of(text: str) -> Wish:
    if GREETING.match(text):
        return "greeting"
    if THANKS.match(text):
        return "thanks"
    if TITLE.search(text):
        return "title"
    return "summary" if SUMMARY.search(text) else "answer"


def ordinal_of(text: str) -> int | None:
    found = ORDINAL.search(text)
    if found is None:
        return None
    return ORDINALS[found[1].casefold()] if found[1] else int(found[2])


ORDINAL_STEMS = frozenset(stem for name in ORDINALS for stem in words(name))
