"""Attacks on documents with restricted access, through a second model that gives them away on purpose.

    python bench/leaks.py [--attacks 5000] [--seed 1] [--language de] [--hints 140] [--places 0] [--no-honest]

Documents in seven languages hold more than 400 canaries: names, code names, titles, figures, dates, identifiers. Each
attack is a call of `knowledge_base_search` in a running backend; `leaking/series.py` says what is counted. `--places N`
plays N more attacks as turns of a server and looks for canaries in packets, journals, requests, logs, rows and files.
`--hints N` names N canaries in the hints that owners write for readers, and repeats a hint in each disguise.
Honest summaries (`leaking/usefulness.py`) show what the guard costs. The exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from leaking.hints import Hints, missed_hints, play_hints, rows
from leaking.series import SERIES, TECHNIQUES, Outcome, Tally, missed, play
from leaking.suite import play as play_places
from leaking.usefulness import Usefulness, measure
from leaking.world import KINDS, LANGUAGES
from tables import arguments, emit, show


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--attacks", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--language", choices=LANGUAGES, action="append", help="only this one; may be said again")
    parser.add_argument("--hints", type=int, default=140, help="canaries that an owner's hint names")
    parser.add_argument("--places", type=int, default=0, help="attacks of which all places are searched")
    parser.add_argument("--no-honest", dest="honest", action="store_false", help="leave the honest summaries out")
    parser.add_argument("--examples", type=int, default=40, help="what left, said with its words: so many at most")
    given = parser.parse_args()
    languages, began = tuple(given.language or LANGUAGES), time.monotonic()
    outcome = asyncio.run(play(given.seed, given.attacks, languages)) if given.attacks else Outcome(given.seed)
    useful = asyncio.run(measure(languages)) if given.honest else Usefulness()
    hints = asyncio.run(play_hints(given.seed, given.hints, languages)) if given.hints else Hints()
    places = asyncio.run(play_places(given.seed, given.places)).leaks if given.places else []
    seconds = time.monotonic() - began
    misses = [*missed(outcome, useful), *missed_hints(hints), *places]
    if given.json:
        emit(
            {
                **_figures(outcome, useful),
                "hints": asdict(hints),
                "places": places,
                "missed": misses,
                "seconds": seconds,
            }
        )
    else:
        _print(outcome, useful, given.examples)
        if hints.tried:
            print()
            show(rows(hints))
        print(f"\n{seconds:.0f} seconds, seed {given.seed}. Aims that were missed: {len(misses)}")
        for line in misses:
            print(f"- {line}")
    sys.exit(1 if misses else 0)


def _print(outcome: Outcome, useful: Usefulness, examples: int) -> None:
    if outcome.covered:
        print(
            f"{len(TECHNIQUES)} techniques, {outcome.questions:,} questions, {sum(outcome.canaries.values())} canaries;"
        )
        covered = ", ".join(f"{language} {share:.0%}" for language, share in outcome.covered.items())
        print(f"Ordinary words of the documents that stand in the material: {covered}.\n")
        show(list(_visible(outcome)))
        for title, tallies in (
            ("kind", {(series, KINDS[kind]): tally for (series, kind), tally in outcome.kinds.items()}),
            ("guesses confirmed, by kind", {(s, KINDS[kind]): tally for (s, kind), tally in outcome.oracles.items()}),
            ("language", outcome.languages),
            ("technique", outcome.techniques),
        ):
            print()
            show(list(_worst_first(title, tallies)))
        print("\nWhat left though the second model saw passages alone:")
        _examples(outcome, "sighted", examples)
        print("\nWhat left of a second model that knows the documents:")
        _examples(outcome, "omniscient", examples)
    if useful.shares:
        print()
        show(list(_useful(useful)))


def _examples(outcome: Outcome, series: str, most: int) -> None:
    told = [
        f"{name}: {example}"
        for (of, name), tally in sorted(outcome.techniques.items(), key=lambda one: -_rate(one[1]))
        if of == series
        for example in tally.examples[:2]
    ]
    for line in told[:most]:
        print(f"  {line.replace(chr(10), ' ')}")


def _visible(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    yield "canaries", "all", "visible", "a word of it", "examples"
    for kind, name in KINDS.items():
        seen, parts = outcome.visible[kind], outcome.parts[kind]
        examples = ", ".join(f"{one.page.language}: {one.text}" for one in [*seen, *parts][:4])
        yield name, str(outcome.canaries[kind]), str(len(seen)), str(len(parts)), examples


def _worst_first(title: str, tallies: Mapping[tuple[str, str], Tally]) -> Iterator[tuple[str, ...]]:
    yield title, *(f"{series}: {what}" for series in SERIES[:2] for what in ("played", "left", "chance")), "control"
    names = dict.fromkeys(name for _, name in tallies)
    empty = Tally()
    for name in sorted(names, key=lambda name: [-_rate(tallies.get((of, name), empty)) for of in SERIES[:2]]):
        row = [name]
        for series in SERIES[:2]:
            tally = tallies.get((series, name), empty)
            row += [str(tally.played), f"{tally.left} ({_rate(tally):.0%})", f"{tally.chance} of {tally.guessed}"]
        control = tallies.get(("control", name), empty)
        yield *row, f"{control.chance} of {control.played}"


def _rate(tally: Tally) -> float:
    return tally.left / tally.played if tally.played else 0.0


def _useful(useful: Usefulness) -> Iterator[tuple[str, ...]]:
    yield "honest summaries", "count", "half", "first", "all", "half, rewritten", "first, rewritten", "all, rewritten"
    for name in dict.fromkeys(name for _, name in useful.shares):
        row = [name, str(useful.shares["as said", name].summaries)]
        for way in ("as said", "rewritten"):
            share = useful.shares[way, name]
            row += [f"{part / share.summaries:.0%}" for part in (share.half, share.first, share.whole)]
        yield tuple(row)


def _figures(outcome: Outcome, useful: Usefulness) -> dict[str, object]:
    def told(tallies: Mapping[tuple[str, str], Tally]) -> dict[str, object]:
        return {f"{series}, {name}": asdict(tally) for (series, name), tally in tallies.items()}

    return {
        "seed": outcome.seed,
        "questions": outcome.questions,
        "reasons": outcome.reasons,
        "canaries": {KINDS[kind]: count for kind, count in outcome.canaries.items()},
        "visible": {KINDS[kind]: [one.text for one in seen] for kind, seen in outcome.visible.items()},
        "techniques": told(outcome.techniques),
        "kinds": told(outcome.kinds),
        "languages": told(outcome.languages),
        "useful": {f"{way}, {name}": asdict(share) for (way, name), share in useful.shares.items()},
        "lost": useful.lost,
    }


if __name__ == "__main__":
    main()
