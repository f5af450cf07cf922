"""What has to hold of messages that waited: each is answered once or was taken out, in order, with its newest text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from lamella.commands.parse import TypedCommand
from scheduling.database import Row
from scheduling.model import QUESTION
from scheduling.plan import FIRST, Sent, Told
from scheduling.stored import Stored, said

MAY_REFUSE = ("invalid_request",)
"""Why a command that waited may be refused when its turn comes."""


def commands_done(stored: Stored) -> list[TypedCommand]:
    """The commands of the queue that ran or were refused: both are answered."""
    return [TypedCommand(sent["name"], sent.get("argument", "")) for _, sent in _commands(stored)]


def _commands(stored: Stored) -> list[tuple[Row, dict[str, str]]]:
    rows = [row for row in stored.queue if row["status"] in ("begun", "failed")]
    sent = [(row, json.loads(row["payload"])) for row in rows]
    return [(row, sent) for row, sent in sent if sent["kind"] == "command"]


def _notice_id(row: Row) -> str:
    return f"note_{row['id'].partition('_')[2]}"


def _all_left(told: Told, stored: Stored) -> Iterator[str]:
    """Nothing waits for ever; a message is answered, and a command refused only for its own reasons."""
    notices = {row["id"]: row for row in stored.commands}
    for row in stored.queue:
        if row["status"] not in ("begun", "cancelled", "failed"):
            yield f"“{row['text'][:20]}” is {row['status']} in the queue"
        if row["status"] == "failed" and json.loads(row["payload"])["kind"] == "message":
            yield f"“{row['text'][:20]}” could not be answered"
        if row["status"] == "cancelled" and _notice_id(row) in notices:
            yield f"{row['text']} was taken out, and is answered"
    for row, sent in _commands(stored):
        if (notice := notices.get(_notice_id(row))) is None:
            yield f"/{sent['name']} left the queue without an answer"
        elif row["status"] == "failed":
            error = json.loads(notice["data"])["error"]
            if error["code"] not in MAY_REFUSE:
                yield f"/{sent['name']} was refused: {error}"


def _own_turn(told: Told, stored: Stored) -> Iterator[str]:
    """What was begun is in the turn that its row names, once, and what was taken out in none."""
    asked = stored.asked()
    for row in stored.queue:
        if json.loads(row["payload"])["kind"] != "message":
            continue
        [name] = QUESTION.findall(row["text"])
        if row["status"] == "begun" and Counter(asked.get(row["turn_id"], ()))[name] != 1:
            yield f"{name} is said to be in turn {row['turn_id']}, which asks {asked.get(row['turn_id'])}"


def _in_order(told: Told, stored: Stored) -> Iterator[str]:
    """The queue is done from its front to its end; what is answered together stood together."""
    begun = {row["id"]: place for place, row in enumerate(stored.turns)}
    started = {row["id"]: row["started_at"] for row in stored.turns}
    ran = {row["id"]: row["at"] for row in stored.commands}
    asked = stored.asked()
    rows = [row for row in stored.queue if row["status"] in ("begun", "failed")]
    at = {row["id"]: started.get(row["turn_id"]) or ran.get(_notice_id(row)) for row in rows}
    for one, other in pairwise(rows):
        first, then = at[one["id"]], at[other["id"]]
        if first is not None and then is not None and first > then:
            yield f"“{one['text'][:20]}” waited before “{other['text'][:20]}” and was done after it"
    messages = [(place, row) for place, row in enumerate(rows) if row["turn_id"] in begun]
    for (place, one), (next_place, other) in pairwise(messages):
        if begun[one["turn_id"]] > begun[other["turn_id"]]:
            yield f"“{one['text'][:20]}” waited before “{other['text'][:20]}” and its turn is younger"
        if one["turn_id"] == other["turn_id"]:
            if next_place != place + 1:
                yield f"“{one['text'][:20]}” and “{other['text'][:20]}” are one turn, with a command between them"
            names = asked[one["turn_id"]]
            mine, its = QUESTION.findall(one["text"])[0], QUESTION.findall(other["text"])[0]
            if mine in names and its in names and names.index(mine) > names.index(its):
                yield f"{mine} waited before {its} and stands behind it"


def _edits(told: Told, stored: Stored) -> Iterator[str]:
    """A message has the text of its last edit; one that nobody has heard of may have been the last."""
    texts = "".join(said(row) for row in stored.messages if row["role"] == "user")
    for sent in told.sent:
        found = re.search(rf"\b{sent.name}: (?:edit (\d+)\.)?", texts)
        if found is None:
            continue
        number = int(found[1]) if found[1] else None
        wanted = _may_be_last(sent)
        if number not in wanted:
            yield f"{sent.name} has the text of edit {number}, and could have that of {sorted(wanted, key=str)}"


def _may_be_last(sent: Sent) -> set[int | None]:
    """The edits whose text a message may have in the end; None is the text that it was sent with."""
    stored = [edit for edit in sent.edits if edit.heard == "stored"]
    last_asked = max((edit.asked_at for edit in stored), default=0)
    last = {edit.number for edit in stored if edit.heard_at > last_asked}
    unheard = {edit.number for edit in sent.edits if edit.heard == "asked"}
    return last | unheard | (set() if stored else {None})


def _seen(told: Told, stored: Stored) -> Iterator[str]:
    """What is answered was asked: each finished turn's questions were the newest in the window of a request."""
    asked = stored.asked()
    chats = [request.questions for request in told.witness.asked if request.purpose == "chat"]
    for turn in stored.turns[FIRST:]:
        names = asked.get(turn["id"], [])
        if turn["status"] == "finished" and not any(seen[-len(names) :] == names for seen in chats):
            yield f"{names} have an answer, and no request asked them"


QUEUE_LAWS = (_all_left, _own_turn, _in_order, _edits, _seen)
"""They hold as well where nobody uses the queue."""
