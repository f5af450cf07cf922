"""Words so common that their order tells nothing, and headings that every document has."""

from __future__ import annotations

from lamella.guard.letters import fold, words_of

_FUNCTION_WORDS = """
a about above after again against all also am an and any are as at be because been before being below between both but
by can could did do does doing down during each either else enough ever far every few for from further get gets give
given go goes had has have having he her here hers him his how however i if in into is it its itself just know least
less let like made make makes many may me might more most much must my need neither no nor not now of off often on
once one only or other our out over own per please same shall she should since so some still such take taken than that
the their them then there think these they this those through to too two under until up upon us use used uses using
very was we well were what when where whether which while who whom whose why will with within without would yes yet
you your
aber als am an auch auf aus bei bin bis da das dass dem den der des die dies diese diesem dieser dieses doch du durch
ein eine einem einen einer eines er es fur hat hatte ich ihr im in ist ja kann kein keine man mehr mit muss nach nicht
noch nur oder sein sich sie sind so soll uber um und uns unter vom von vor war was weil wenn wer werden wie wir wird zu
zum zur zwischen
au aux avec ce cette ces comme dans de des du elle en est et il la le les leur mais ne nous on ou par pas plus pour que
qui sa se ses son sur un une vous
al con como de del el ella en entre es esta este la las lo los mas muy no o para pero por que se sin su sus un una y ya
"""

_PLAIN_WORDS = """
answer answers base case cases chapter chapters contains content contents covers data describes description details
document documents explains figures file files general guidance help includes information item items kind kinds list
material materials name names note notes number numbers page pages paragraph part parts point points question questions
reader readers reference references related relevant report says section sections source sources states subject table
text texts title titles topic topics user users way ways word words work works
"""

_HEADINGS = """
abstract agenda annex appendix background chapter conclusion conclusions confidential contact contents definitions
details discussion draft faq figures foreword general glossary history index information internal introduction
management method methods objective objectives outlook overview plan policy preface procedure process purpose
recommendations references report results review risks schedule scope strategy summary table terms update version
anhang anlage einleitung einfuhrung inhalt inhaltsverzeichnis ubersicht zusammenfassung zweck ziel ziele
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(word.text for word in words_of(fold(text)))


FUNCTION_WORDS = _words(_FUNCTION_WORDS)
"""Words that carry no content, of English, German, French and Spanish, in the form that compares."""

PLAIN_WORDS = FUNCTION_WORDS | _words(_PLAIN_WORDS) | _words(_HEADINGS)
"""Those, and words that speak of any document."""
