"""Bulk text of a museum's renovation: rooms, minutes, offers, costs and rules, the same in every run."""

from __future__ import annotations

from writing.parts import Draw, Json

ROOMS = (
    "entrance hall", "cloakroom", "ticket desk", "harbour gallery", "map room", "rope store", "model workshop",
    "lecture hall", "reading room", "north stairs", "south stairs", "picture store", "conservation studio", "café",
    "kitchen", "boiler room", "loading bay", "archive", "directors' office", "lantern room", "engine gallery",
    "figurehead gallery", "children's deck", "lift shaft", "roof space",
)  # fmt: skip
FLOORS = ("lime plaster on brick", "pine boards on joists", "terrazzo", "oak parquet", "sealed concrete", "slate flags")
FAULTS = (
    "salt crust on the lower 40 centimetres of the outer wall",
    "a crack of {n} millimetres running from the window head to the ceiling",
    "boards worn to less than {n} millimetres along the main route",
    "condensation behind the showcase on the north side, {n} percent relative humidity in January",
    "paint with lead under two later coats, over about {n} square metres",
    "a radiator that has not warmed up since the winter of 20{n}",
    "no second way out, with room for {n} people",
)
WORKS = (
    "remove the crust, let the wall dry for a season, then replaster with lime",
    "fit gauges for six months before deciding anything",
    "lift and turn the boards, replace one in {n}",
    "move the showcase {n} centimetres from the wall and add a grille",
    "strip inside a tent, carry off as hazardous waste",
    "replace the valve and {n} metres of pipe",
    "cut a door of 1.0 by 2.1 metres to the stairs",
)
PEOPLE = ("Ms Brandt", "Mr Oyelaran", "Ms Kowalczyk", "Mr Lund", "Ms Ferrari", "Mr Adeyemi")
TRADES = ("plasterer", "joiner", "electrician", "glazier", "roofer", "stonemason", "painter", "heating engineer")
TOPICS = (
    "whether the {room} can stay open while the {trade} works",
    "the delay of the {trade}, who now expects to begin {n} days later",
    "who pays for the second opinion on the {room}",
    "the objection of the monuments office to the windows of the {room}",
    "how the exhibits of the {room} are moved and where they are kept",
    "the offer of the {trade}, which is {n} percent above the estimate",
)
ENDINGS = (
    "It was agreed that {person} asks for a written statement before the next meeting.",
    "{person} objects; the minutes record it. The majority goes ahead.",
    "Put off until the costs are known; {person} keeps track of it.",
    "Agreed without a vote, on condition that the route for visitors stays free.",
    "{person} and the {trade} settle it on site and report back.",
)


def rooms(seed: int) -> str:
    """The survey: each room with its state and what is to be done."""
    draw, parts = Draw(seed), ["Survey of rooms, Harbour Museum, status of 12 January 2026"]
    for number, room in enumerate(ROOMS, 1):
        area, height = 12 + draw.below(160), 26 + draw.below(22)
        lines = [
            f"{number}. {room.capitalize()}. {area} square metres, {height / 10} metres high, {draw.of(FLOORS)}. "
            f"Last renovated in {1951 + draw.below(60)}."
        ]
        for _ in range(4 + draw.below(2)):
            fault = draw.of(FAULTS).format(n=11 + draw.below(60))
            work = draw.of(WORKS).format(n=3 + draw.below(12))
            euros = (4 + draw.below(90)) * 250
            lines.append(f"   Found: {fault}. Proposed: {work}. Estimate: {euros:,} euros, {draw.of(TRADES)}.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def minutes(seed: int, meetings: int) -> str:
    """Minutes of the building committee."""
    draw, parts = Draw(seed), []
    for number in range(1, meetings + 1):
        present = ", ".join(person for person in PEOPLE if draw.below(5))
        lines = [f"Meeting {number} of the building committee, {3 + number} February 2026. Present: {present}."]
        for item in range(1, 8):
            words = {"room": draw.of(ROOMS), "trade": draw.of(TRADES), "person": draw.of(PEOPLE)}
            topic = draw.of(TOPICS).format(n=5 + draw.below(25), **words)
            lines.append(f"{number}.{item} {draw.of(PEOPLE)} raises {topic}. {draw.of(ENDINGS).format(**words)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def offers(seed: int) -> str:
    """What each trade offers, position by position."""
    draw, parts = Draw(seed), []
    for trade in TRADES:
        lines = [f"Offer of the {trade}, valid until {10 + draw.below(18)} May 2026"]
        total = 0
        for position in range(1, 17):
            count, price = 2 + draw.below(80), 20 + draw.below(300)
            total += count * price
            unit = draw.of(("square metres", "metres", "hours", "pieces"))
            lines.append(f"{position:02d} {draw.of(ROOMS)}: {count} {unit} at {price} euros, {count * price:,} euros")
        lines.append(f"Sum without tax {total:,} euros. Two percent discount within ten days. Scaffold not included.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def costs(seed: int) -> str:
    """The budget by quarter."""
    draw, lines = Draw(seed), ["position;approved;ordered;paid;forecast"]
    lines += [
        f"{room};{(draw.below(90) + 10) * 1000};{draw.below(90) * 1000};{draw.below(40) * 1000};"
        f"{(draw.below(110) + 10) * 1000}"
        for room in ROOMS
    ]
    return "\n".join(lines)


RULES = """Rules of the house during the works

1. The museum stays open from Wednesday to Sunday. Noise above 70 decibels is allowed on Mondays and Tuesdays only.
2. No naked flame in any room. Hot work needs a permit for the day, a second person, and a watch of two hours after it.
3. Exhibits are moved by the museum's staff alone. A room is handed over empty, with a protocol and photographs.
4. Relative humidity in the picture store and the archive stays between 45 and 55 percent. Above 60 percent works stop.
5. Dust walls are closed before work begins and cleaned before they are opened. Lead paint is stripped in a tent only.
6. Deliveries come to the loading bay before ten. The square in front of the entrance belongs to the city.
7. Whoever finds old paint, writing or timber marks stops and calls the conservator. This is never the builder's fault.
8. Changes of cost above 2,000 euros need a signature by two members of the committee before they are ordered.
"""


def project_files(version: int = 1) -> list[Json]:
    """The project's documents; a later version has another meeting in the minutes."""
    return [
        {"name": "survey.md", "text": rooms(21)},
        {"name": "minutes.md", "text": minutes(34, 14 + version)},
        {"name": "offers.md", "text": offers(55)},
        {"name": "costs.csv", "text": costs(89), "media_type": "text/csv"},
        {"name": "rules.md", "text": RULES},
    ]
