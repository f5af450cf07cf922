"""Protected documents that a seed makes, with everything in them that may not leave: their canaries."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_WHO = ["tenant", "supplier", "weaver", "harbour office", "night nurse", "auditor", "miller", "printer", "ferry crew"]
_DOES = ["repays", "delivers", "inspects", "returns", "stores", "polishes", "replaces", "hides", "weighs"]
_WHAT = [
    "copper looms",
    "sealed ledgers",
    "blue tiles",
    "spare anchors",
    "oak barrels",
    "silver spoons",
    "glass valves",
]
_HOW = ["behind the east gate", "under the tin roof", "beside the old kiln", "across the frozen canal", "near the ramp"]
_WHEN = ["before the goose market opens", "after the lamps are lit", "whenever the bell rings twice", "until ice melts"]
_TITLES = [
    "Lease of the northern mill",
    "Board paper on dye works",
    "Wages of the ferry crew",
    "Plan for the kiln yard",
]
_HEADINGS = [
    "Handing over spare keys",
    "Closing the spinning floor",
    "Penalties for late barrels",
    "Bonus of the miller",
]
_UNITS = ["euros", "dollars", "kg", "litres"]


@dataclass(frozen=True, slots=True)
class Secret:
    """A protected document. `figure` is a whole number with its unit, `day` an ISO date."""

    title: str
    heading: str
    sentences: tuple[str, ...]
    figure: int
    unit: str
    percentage: str
    day: str
    identifier: str

    @property
    def text(self) -> str:
        """The document."""
        first, *rest = self.sentences
        facts = (
            f"The sum agreed on is {self.figure:,} {self.unit}, which is {self.percentage} % more than before. "
            f"It falls due on {self.day} under number {self.identifier}."
        )
        return f"# {self.heading}\n\n{first}\n\n{facts}\n\n" + "\n\n".join(rest)

    @property
    def canaries(self) -> tuple[str, ...]:
        """What may be found nowhere, as it stands in the document."""
        runs = [" ".join(sentence.split()[at : at + 8]) for sentence in self.sentences for at in (0, 3)]
        return (f"{self.figure:,}", str(self.figure), f"{self.percentage} %", self.day, self.identifier, *runs)


def secret(chosen: Random) -> Secret:
    """A document of this seed."""
    sentences = tuple(
        f"The {chosen.choice(_WHO)} {chosen.choice(_DOES)} {chosen.randint(20, 900)} {chosen.choice(_WHAT)} "
        f"{chosen.choice(_HOW)} and {chosen.choice(_DOES)} the {chosen.choice(_WHAT)} {chosen.choice(_WHEN)}."
        for _ in range(4)
    )
    return Secret(
        title=f"{chosen.choice(_TITLES)} {chosen.randint(2019, 2029)}.md",
        heading=chosen.choice(_HEADINGS),
        sentences=sentences,
        figure=chosen.randint(100, 989) * 1_000 + chosen.randint(101, 999),
        unit=chosen.choice(_UNITS),
        percentage=f"{chosen.randint(13, 97)}.{chosen.randint(1, 9)}",
        day=f"20{chosen.randint(24, 39)}-{chosen.randint(1, 12):02}-{chosen.randint(13, 28)}",
        identifier=f"{chosen.choice('KXQZ')}{chosen.choice('WVJP')}-{chosen.randint(1_000, 9_999)}-B",
    )
