"""Conversations full of identifiers: in each turn a result of a kind that tools really return, and planted facts.

A result has 3 kB, each tenth 12 kB. A fact is a paragraph of its own with a word `FACT-…`, said by user, tool and
assistant in turn. What is looked at, asked and answered is drawn from a seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from writing.parts import Draw, Json, Telling, call, said, tool

TURNS = 60
FACTS = 36
SPEAKERS = ("user", "tool", "assistant")

SIZE, LARGE, EVERY = 3_000, 12_000, 10
"""Bytes of a result, of a large one, and how often one is large."""

SYSTEM = (
    "You look after the machines of a waterworks. Use the tool before you answer, and answer in a few sentences. " * 6
)

SYLLABLES = ("ka", "lo", "mi", "ren", "tu", "vas", "pel", "dor", "ni", "sha", "bru", "qui", "zen", "hol", "fa", "gri")
NAMES = ("Ilse Brandt", "Tomasz Wilk", "Aiko Mori", "Nadia Haddad", "Per Lund", "Rosa Vidal")
PLACES = ("intake", "filter hall", "north reservoir", "pump house", "valve chamber", "laboratory")


def word(draw: Draw) -> str:
    """A word that no language has."""
    return "".join(draw.of(SYLLABLES) for _ in range(2 + draw.below(2)))


# fmt: off
WORDS = (
    "amber", "anchor", "basin", "beacon", "bridge", "candle", "canvas", "copper", "current", "delta", "ember",
    "feather", "ferry", "gravel", "harbour", "hollow", "island", "kettle", "ladder", "lantern", "marble",
    "meadow", "mirror", "needle", "orchard", "packet", "pebble", "pillar", "quarry", "ribbon", "saddle",
    "shelter", "signal", "silver", "stable", "summer", "ticket", "timber", "tunnel", "valley", "velvet", "window",
    "winter", "yellow",
)
# fmt: on


def words(draw: Draw) -> str:
    """Words and numbers, in no order."""
    return " ".join(f"{draw.of(WORDS)} {draw.below(9_000)}" if draw.below(3) else draw.of(WORDS) for _ in range(12))


def log(draw: Draw) -> str:
    """A line of a log."""
    level = draw.of(("INFO", "INFO", "WARN", "ERROR"))
    said = draw.of(
        (
            "pressure {a} mbar outside of {b}..{c}",
            "retry {a} of {b} for telegram {c}",
            "valve answered after {a} ms",
            "session s{c} closed by peer, {b} bytes pending",
        )
    ).format(a=draw.below(900), b=draw.below(90), c=draw.below(90_000))
    moment = f"2026-03-{draw.below(28) + 1:02}T{draw.below(24):02}:{draw.below(60):02}:{draw.below(60):02}"
    return f"{moment}.{draw.below(1000):03}Z {level:5} plc-{draw.below(40)} [{draw.below(16**6):06x}] {said}"


def record(draw: Draw) -> str:
    """A line of JSON."""
    fields = {
        "id": f"{word(draw)[:4]}_{draw.below(16**8):08x}",
        "unit": f"{word(draw)}-{draw.below(900)}",
        "values": [draw.below(9_000) / 10 for _ in range(3)],
        "ok": draw.below(4) > 0,
        "by": draw.of(NAMES),
    }
    return json.dumps(fields)


def row(draw: Draw) -> str:
    """A row of a table."""
    cells = (f"{draw.below(90_000):05}", word(draw), draw.of(PLACES), f"{draw.below(10_000) / 100:.2f}")
    return "| " + " | ".join((*cells, f"{draw.below(28) + 1:02}.03.2026", draw.of(("open", "closed", "stuck")))) + " |"


def prose(draw: Draw) -> str:
    """A few sentences of a report."""
    told = (
        "The crew of the {place} found nothing unusual on its round and wrote down the usual readings.",
        "{name} asked whether the old sketches of the {place} could be scanned before the archive moves.",
        "After the storm the {place} was dry again within {n} hours, sooner than anybody had expected.",
        "The report says that the paint near the {place} peels, and that this is no cause for concern.",
        "A visitor from the ministry spent {n} minutes in the {place} and praised how tidy it was.",
        "Nobody could say who had left the ladder in the {place}; {name} put it back.",
    )
    return " ".join(
        draw.of(told).format(place=draw.of(PLACES), name=draw.of(NAMES), n=draw.below(70) + 2) for _ in range(3)
    )


def patch(draw: Draw) -> str:
    """A few lines of a change of code."""
    name, other = word(draw), word(draw)
    return draw.of(
        (
            f"@@ -{draw.below(900)},7 +{draw.below(900)},9 @@ def {name}_{other}(station, limit={draw.below(400)}):",
            f"-    reading = {name}.latest(station, unit={draw.below(90)})\n+    reading = {name}.latest(station)",
            f"+    if reading.value > {draw.below(9_000)}:\n+        raise {name.title()}(0x{draw.below(16**4):04x})",
            f"     return {other}[{draw.below(40)}] if {name} else None",
        )
    )


def chinese(draw: Draw) -> str:
    """A sentence of a report in Chinese."""
    told = (
        "{n}号泵站在第{m}次巡检中压力为{k}毫巴，未发现异常。",
        "值班员王丽记录了{m}分钟的停机，原因是阀门{n}响应缓慢。",
        "北水库的水位比上周低{m}厘米，预计{n}小时后恢复。",
        "编号{k}的传感器已更换，旧件送往实验室检查。",
        "天气晴朗，过滤大厅的例行清洁已经完成。",
    )
    return "".join(draw.of(told).format(n=draw.below(90), m=draw.below(60), k=draw.below(9_000)) for _ in range(2))


def english_fact(number: int, draw: Draw) -> str:
    """A fact, as somebody would note it."""
    told = (
        "FACT-{n:02}: the gate of the {place} opens with code {k} and is locked again by {name}.",
        "FACT-{n:02}: {name} allows at most {k} litres a second through the {place} while the river is high.",
        "FACT-{n:02}: spare part {w}-{k} for the {place} is in the cabinet behind the door of {name}.",
        "FACT-{n:02}: whoever calls the {place} at night dials {k} and asks for {name}.",
    )
    said = {"place": draw.of(PLACES), "name": draw.of(NAMES), "k": draw.below(9_000) + 1_000, "w": word(draw)}
    return draw.of(told).format(n=number, **said)


def chinese_fact(number: int, draw: Draw) -> str:
    """A fact in Chinese."""
    told = (
        "FACT-{n:02}：泵站大门的密码是{k}，由王丽负责上锁。",
        "FACT-{n:02}：河水上涨时，李强只允许每秒{k}升通过北水库。",
        "FACT-{n:02}：备件编号{k}放在张敏办公室门后的柜子里。",
    )
    return draw.of(told).format(n=number, k=draw.below(9_000) + 1_000)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of text: `line` makes a line of a result, `fact` a fact, `asks` and `answers` what is said around them.
    The figures of `tuned` kinds may be looked at while a rule is made; the others are only reported."""

    line: Callable[[Draw], str]
    tuned: bool = False
    fact: Callable[[int, Draw], str] = english_fact
    asks: tuple[str, ...] = (
        "What does unit {unit} say since {hour}:00?",
        "Go on with unit {unit}, please.",
        "Somebody complained about {place}. Is there anything in unit {unit}?",
        "Check unit {unit} of the {place} once more before I write it down.",
    )
    answers: tuple[str, ...] = (
        "Unit {unit} looks as it should: {k} is the highest value, and what stands around it is quiet. I would leave "
        "it alone and look at the next one.",
        "There is one thing in unit {unit}: {k} comes back several times. It fits what we saw in the {place}, and it "
        "is no reason to switch anything off.",
        "Nothing new in unit {unit}. The same kinds of entries, in about the same proportion as before.",
    )


KINDS: Mapping[str, Kind] = {
    "words": Kind(words, tuned=True),
    "log": Kind(log, tuned=True),
    "prose": Kind(prose, tuned=True),
    "json": Kind(record),
    "table": Kind(row),
    "patch": Kind(patch),
    "chinese": Kind(
        chinese,
        fact=chinese_fact,
        asks=(
            "{unit}号设备从{hour}点起有什么情况？",
            "请继续检查{unit}号设备。",
            "有人反映{unit}号设备有问题，请再看一下。",
        ),
        answers=(
            "{unit}号设备一切正常，最高值为{k}，周围没有异常。建议继续检查下一台设备。",
            "{unit}号设备没有新的情况，记录的种类和比例与之前相同。",
        ),
    ),
}


def result(kind: Kind, draw: Draw, size: int, note: str) -> str:
    """What the tool gives: lines of so many bytes in all, and a note as a paragraph of its own among them."""
    lines: list[str] = []
    while size > 0:
        lines.append(kind.line(draw))
        size -= len(lines[-1].encode()) + 1
    if not note:
        return "\n".join(lines)
    at = draw.below(len(lines) - 1) + 1
    return "\n".join([*lines[:at], "", note, "", *lines[at:]])


def told(kind: Kind, seed: int, facts: int = FACTS) -> list[str]:
    """All facts of a conversation."""
    draw = Draw(seed * 7_919 + 11)
    return [kind.fact(number, draw) for number in range(facts)]


def planted(turn: int, turns: int, facts: int) -> int | None:
    """Which fact is said in this turn; None in some. The last turn has none: what it says is in no later window."""
    number, before = (place * facts // (turns - 1) for place in (turn, turn - 1))
    return number if number < facts and (not turn or number != before) else None


def trace(
    name: str, seed: int = 1, turns: int = TURNS, facts: int = FACTS, search: bool = False, **settings: int | str
) -> Json:
    """The trace of a kind; `search`: at the end the model searches the conversation once for what it does not see."""
    kind, draw = KINDS[name], Draw(seed)
    notes, telling = told(kind, seed, facts), Telling("2026-03-11T10:00:00+01:00")
    for turn in range(turns):
        number = planted(turn, turns, facts)
        by = SPEAKERS[number % len(SPEAKERS)] if number is not None else ""
        says = {who: f"\n\n{notes[number]}" if number is not None and by == who else "" for who in SPEAKERS}
        unit, place = f"{word(draw)}-{draw.below(900)}", draw.of(PLACES)
        about = {"unit": unit, "place": place, "hour": draw.below(24), "k": draw.below(9_000)}
        size = LARGE if turn % EVERY == EVERY - 1 else SIZE
        found = result(kind, draw, size, says["tool"].strip())
        answer = draw.of(kind.answers).format(**about) + says["assistant"]
        steps = [said("", call(f"c{turn}", "inspect", found, unit=unit)), said(answer)]
        if search and turn == turns - 1:
            hits = "\n\n".join(f"[msg_{index}] {note}" for index, note in enumerate(notes[1::3][:12]))
            steps.insert(1, said("", call(f"s{turn}", "search_conversation", hits, query="FACT")))
        telling.turn(draw.of(kind.asks).format(**about) + says["user"], *steps)
    return {
        "system": SYSTEM,
        "tools": [
            tool("inspect", "What a unit has recorded.", unit="The unit."),
            tool("search_conversation", "Searches what was said before.", query="Words to look for."),
        ],
        "settings": settings,
        "side": {"summary": "keep_facts"},
        "turns": telling.turns,
    }
