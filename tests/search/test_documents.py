"""What decides which document is first: rare words, all of a long query, pairs, and how a document begins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.core.recall import Space
from lamella.search.documents import rank_documents
from lamella.search.ranking import PLACE_BITS, Corpus, Ints, Matches, Ranking, moved
from lamella.search.terms import is_form, query_words, terms_of

FILLER = "much was written of fog gulls rope and a broken clock that day while nobody looked at the sea again"


def ranked(
    query: str, *documents: Sequence[str], similar: Sequence[float] | None = None, weight: float = 0.0
) -> Ranking:
    """The ranking of documents, each given as its passages."""
    passages = [terms_of(passage) for document in documents for passage in document]
    numbers = [number for number, document in enumerate(documents) for _ in document]
    held: defaultdict[str, list[int]] = defaultdict(list)
    for place, terms in enumerate(passages):
        for at, term in enumerate(terms):
            held[term].append(place << PLACE_BITS | at)
    words = query_words(query)
    found: dict[str, Ints] = {word: np.array(held[word], np.int64) for word in words}
    corpus = Corpus(np.array(numbers, np.int64), np.array([len(terms) for terms in passages], np.float64))
    near = np.array(similar, np.float64) if similar is not None else None
    forms: dict[str, Ints] = {word: np.array(sorted(_forms(held, word)), np.int64) for word in words}
    space = Space("test", 0.0, 0.3, document_weight=weight)
    return rank_documents(corpus, Matches(words, found, forms, near), space)


def _forms(held: Mapping[str, Sequence[int]], word: str) -> list[int]:
    return [place for term, places in held.items() if is_form(word, term) for place in places]


def first(query: str, *documents: str) -> int:
    """The place of the best of documents of one passage each."""
    return int(ranked(query, *([document] for document in documents)).first(1)[0])


def test_a_sentence_of_common_words_lifts_nothing() -> None:
    common = [f"I hope that you are well and this finds you well, number {number}." for number in range(8)]
    query = "I hope that you are well. Which valve drains the condensate?"
    assert first(query, *common, "The valve that drains the condensate sits below.") == 8


def test_a_word_counts_as_often_as_the_query_says_it() -> None:
    documents = (f"{FILLER} heron", f"{FILLER} egret")
    assert first("egret heron heron", *documents) == 0
    assert first("egret egret heron", *documents) == 1


def test_the_last_word_of_a_long_query_counts() -> None:
    query = " ".join(f"word{number}" for number in range(200)) + " quagga"
    assert first(query, FILLER, f"{FILLER} quagga") == 1


def test_words_that_stand_together_in_the_query_count_more_where_they_do_so_in_a_document() -> None:
    apart = f"A layer of paint. {FILLER} The boundary of the field."
    together = f"A coat of paint. {FILLER} The boundary layer."
    assert first("boundary layer", apart, together) == 1
    assert first("boundary layer", together, apart) == 0


def test_a_document_that_begins_with_a_word_is_about_it() -> None:
    ends, begins = f"{FILLER} {FILLER} heron", f"heron {FILLER} {FILLER}"
    assert first("heron", ends, begins) == 1


def test_another_form_of_a_word_is_found_and_counts_less_than_the_word() -> None:
    documents = (f"Brücken {FILLER}", f"Brücke {FILLER}", f"brisk {FILLER}")
    assert ranked("Brücke", *([document] for document in documents)).first(9).tolist() == [1, 0]


def test_rare_words_decide_in_a_long_query_and_common_ones_by_their_number_in_a_short_one() -> None:
    held = " gulls rope clock day ".join(f"common{number}" for number in range(6))
    documents = [held if number % 2 else FILLER for number in range(40)]
    documents[2] += " quagga"
    query = "quagga " + " ".join(f"common{number}" for number in range(5, -1, -1))
    assert "quagga" not in documents[first(query, *documents)]
    assert first(f"{query} {' '.join(f'absent{number}' for number in range(25))}", *documents) == 2


def test_characters_without_breaks_count_as_often_as_they_stand_there() -> None:
    """Seven pairs overlap in eight characters: they are four words, not seven."""
    run = "一二三四五六七八"
    documents = (f"{FILLER} {run}", f"alpha beta gamma delta epsilon {FILLER}")
    assert first(f"{run} delta gamma epsilon beta alpha", *documents) == 1


def test_a_long_document_is_found_by_the_passage_that_answers_and_shows_it_first() -> None:
    manual = [FILLER] * 6 + [f"The heron nests in March. {FILLER}", f"A heron. {FILLER}"]
    made = ranked("when does the heron nest", manual, [f"A nest of gulls. {FILLER}"])
    assert int(made.first(1)[0]) == 6
    assert set(made.first(9).tolist()) == {6, 7, 8}


def test_what_is_similar_is_found_without_a_word_and_never_before_all_words() -> None:
    made = ranked("heron", [f"heron {FILLER}"], [FILLER], similar=[0.0, 0.9], weight=0.1)
    assert made.first(2).tolist() == [0, 1]


def test_a_similarity_counts_by_how_far_it_stands_above_the_others() -> None:
    """The fourth passage is the nearest both times; among passages that are all near it tells little."""
    documents = [[f"heron egret {FILLER}"], *([f"{number} {FILLER}"] for number in range(40)), [f"heron {FILLER}"]]
    far, near = [0.1] * 41 + [0.9], [0.9 - 0.01 * (number % 5) for number in range(41)] + [0.9]
    assert ranked("heron egret", *documents, similar=far, weight=0.9).first(1).tolist() == [41]
    assert ranked("heron egret", *documents, similar=near, weight=0.9).first(1).tolist() == [0]


def test_the_only_passage_is_found_by_its_meaning_and_one_without_a_vector_is_not() -> None:
    assert ranked("heron", [FILLER], similar=[0.5], weight=0.5).first(9).tolist() == [0]
    assert ranked("heron", [FILLER], [FILLER], similar=[0.5, 0.0], weight=0.5).first(9).tolist() == [0]


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=30).map(" ".join), min_size=1, max_size=8),
    st.lists(st.sampled_from("bcdefgh"), min_size=1, max_size=8).map(" ".join),
)
def test_a_score_is_one_at_most_and_only_holders_are_found(texts: list[str], query: str) -> None:
    made = ranked(query, *([text] for text in texts))
    assert ((made.scores >= 0) & (made.scores <= 1)).all()
    asked = set(query_words(query))
    assert [score > 0 for score in made.scores] == [bool(asked & set(terms_of(text))) for text in texts]


def test_occurrences_move_with_their_passages() -> None:
    occurrences = np.array([3 << PLACE_BITS | 7, 5 << PLACE_BITS | 0], np.int64)
    assert moved(occurrences, np.array([0, 1])).tolist() == [7, 1 << PLACE_BITS]
