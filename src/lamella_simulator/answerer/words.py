"""Words for matching: folded, stemmed a little, without the words that every sentence has; CJK as pairs of signs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|\w+")
CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
RUNS = re.compile(rf"{CJK.pattern}|[^\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
LANGUAGES = {
    "English": """
    a about above after again all also am an and any are as at be because been before being between both but by can
    could did do does doing don't down during each either else ever few for from further get gets give given go had
    has have having he her here hers him his how i if in into is it it's its just know let like make many may me
    might more most much must my no nor not of off on once one only or other our out over own please s same say says
    she should show so some such tell than that the their them then there these they this those through to too under
    until up upon us use very was we were what what's when where whether which while who whom whose why will with
    within would yes yet you your document documents file files text according find mentioned mention explain
    """,
    "German": """
    aber als am an auch auf aus bei bin bis bist da damit dann das dass dein dem den der des dich die dies diese
    diesem diesen dieser dieses dir doch du durch ein eine einem einen einer eines er es für gibt haben hat hatte
    ich ihr ihre im in ist ja kann kein keine man mein mich mir mit nach nicht noch nur ob oder ohne sagt sehr sein
    seine sich sie sind so steht über um und uns unter viel vom von vor war waren warum was welche welcher welches
    wenn wer werden wie wieviel wir wird wo wurde wurden zu zum zur dokument datei
    """,
    "French": """
    au aux avec ce ces cette combien comment dans de des du elle en est et eu il ils je la le les leur lui ma mais
    me même mes moi mon ne nos notre nous on ou où par pas pour pourquoi qu que quel quelle quelles quels qui quoi
    sa sans se ses son sont sur ta te tes toi ton tu un une vos votre vous d l c n
    """,
    "Spanish, Italian, Portuguese": """
    al como con cuál cuándo cuánto del donde dónde el ella ellos era es esa ese eso esta este esto fue ha hay la las
    lo los más mi muy no nos o para pero por porque qué quién se según ser si sin sobre son su sus también te tu un
    una uno y ya che chi ci come cosa da dal dei della delle di dove e gli ho i il io le lui nel nella non per più
    quale quando quanto sono suo tra um uma os as ao com da das do dos em entre foi isso mais na nas no nos não
    pela pelo qual quando que quem são sua
    """,
    "Russian": """
    а без был была были было быть в вам вас весь во вот все вы где да для до его ее если есть еще же за и из или им
    их к как какая какие какой когда кто ли мне мы на над не него нет ни но о об он она они от по под при с со так
    такой там то тоже только ты у уже чего чем что чтобы эта эти это этот я
    """,
}
STOPWORDS = frozenset(word for listed in LANGUAGES.values() for word in listed.split())
SUFFIXES = ("ing", "ion", "ung", "ed", "en", "er", "em", "ly", "e", "n")


def words(text: str) -> list[str]:
    """The stems of a text's content words, in order, with repetitions."""
    return [stem_of for stem_of, _ in terms(text)]


def terms(text: str) -> Iterator[tuple[str, str]]:
    """Each content word as its stem and as it is written."""
    for match in WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = match.group()
        if CJK.search(word):
            yield from ((pair, pair) for pair in pairs(word))
        elif stem_of := stem(word.casefold()):
            yield stem_of, word


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light stem for any language; empty for a stopword."""
    word = word.replace("’", "'")
    word = word.removesuffix("'s")
    if word in STOPWORDS or (len(word) == 1 and not word.isdigit()):
        return ""
    if word[0].isdigit():
        return word.replace(",", "").rstrip(".")
    if not word.isascii() and unicodedata.name(word[0], "").startswith(("CYRILLIC", "GREEK")):
        return word[:-2] if len(word) > 6 else word[:-1] if len(word) > 4 else word
    return latin_stem(word)


def latin_stem(word: str) -> str:
    """Plural first, then one ending; never shorter than four letters."""
    if len(word) > 5 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 5 and word.endswith("es"):
        word = word[:-2]
    elif len(word) > 4 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return word.removesuffix(suffix)
    return word


def pairs(word: str) -> list[str]:
    """Chinese, Japanese and Korean are written without spaces: neighbouring signs in pairs stand in for words."""
    pieces: list[str] = []
    for run in RUNS.findall(word):
        if CJK.match(run):
            pieces.extend(run[i : i + 2] for i in range(max(1, len(run) - 1)))
        elif stem_of := stem(run.casefold()):
            pieces.append(stem_of)
    return pieces
