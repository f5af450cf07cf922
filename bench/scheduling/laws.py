"""What has to hold after every schedule, read from the database file and from what clients and the model saw."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from lamella.turns.recovery import GAP
from scheduling.database import Row
from scheduling.model import SUMMARY, Asked
from scheduling.plan import CONVERSATION, Told
from scheduling.queue_laws import QUEUE_LAWS, commands_done
from scheduling.stored import Stored, said

MAY_FAIL = ("TurnInProgress", "InvalidRequest", "ServerStopping", "LeaseLost")
"""How a command may be refused. Somebody else's compaction is no reason: `/new` and `/resume` win."""

EXPECTED_LOG = {
    "compacted",
    "not compacted",
    "summarised",
    "no summary of an ended session",
    "a job was taken over",
    "a turn that was cut off has been recovered",
    "this process serves together with others",
    "a process gave no sign of life: this one takes over",
    "others have taken over what this process did: it begins again",
    "another process has taken a turn over",
    "what a dead process left is not taken up",
}


def broken_laws(told: Told, stored: Stored) -> list[str]:
    """Every law that does not hold, in words; none is what is wanted."""
    sessions = (_sessions, _labels, _commits, _jobs, _summaries)
    laws = (_messages, _answers, _order, *sessions, _commands, _window, _followed, _log, *QUEUE_LAWS)
    found = list(told.broken)
    for law in laws:
        found += law(told, stored)
    return found


def _messages(told: Told, stored: Stored) -> Iterator[str]:
    """No message is lost or doubled; what was refused is not stored."""
    count = Counter(name for name, _ in stored.questions())
    for sent in told.sent:
        least, most = {"stored": (1, 1), "refused": (0, 0), "asked": (0, 1)}[sent.heard]
        if sent.dropped is not None:
            least, most = 0, int(sent.dropped == "asked")
        if not least <= count[sent.name] <= most:
            yield f"{sent.name} was {sent.heard} and is stored {count[sent.name]} times"
    for name in count.keys() - {sent.name for sent in told.sent}:
        yield f"{name} is stored, and nobody sent it"
    turns = Counter(row["turn_id"] for row in stored.messages if row["role"] == "user")
    for turn in stored.turns:
        if turns[turn["id"]] != 1:
            yield f"turn {turn['id']} has {turns[turn['id']]} messages of a user"


def _answers(told: Told, stored: Stored) -> Iterator[str]:
    """Every turn has ended, with its own answer, once, given to whoever saw its questions as the newest."""
    question = {turn: ", ".join(names) for turn, names in stored.asked().items()}
    answers = Counter(row["turn_id"] for row in stored.messages if row["role"] != "user")
    for row in stored.messages:
        if row["role"] != "user" and not f"An answer to {question[row['turn_id']]}.".startswith(said(row)):
            yield f"{question[row['turn_id']]} is answered with “{said(row)}”"
    for turn in stored.turns:
        if turn["status"] not in ("finished", "stopped", "interrupted"):
            yield f"{question[turn['id']]} is {turn['status']}"
        if answers[turn["id"]] > 1 or (turn["status"] == "finished" and answers[turn["id"]] != 1):
            yield f"{question[turn['id']]} has {answers[turn['id']]} answers"
    if stored.conversation["running_turn"] is not None:
        yield "a turn is still marked as running"


def _order(told: Told, stored: Stored) -> Iterator[str]:
    """What somebody said one after another is stored one after another, and a path goes forward in time."""
    client = {sent.name: sent.client for sent in told.sent}
    place = {name: number for number, (name, _) in enumerate(stored.questions())}
    for number in {sent.client for sent in told.sent}:
        names = [name for name in place if client.get(name) == number]
        if names != sorted(names, key=lambda name: int(name[1:])):
            yield f"the messages of client {number} are stored as {names}"
    at = {row["id"]: row["started_at"] for row in stored.turns}
    for one, other in pairwise(stored.path()):
        if at[one] > at[other]:
            yield f"turn {other} stands behind {one} and is older"


def _sessions(told: Told, stored: Stored) -> Iterator[str]:
    """One session is current and open, and only a closed one has a summary, unless it was opened again."""
    still = [row["id"] for row in stored.sessions if row["closed_at"] is None]
    if still != [stored.conversation["session_id"]]:
        yield f"the sessions {still} are open, and {stored.conversation['session_id']} is the current one"
    again = Counter(row["subject"] for row in stored.decisions)
    for row in stored.sessions:
        reopened = again[row["id"]] > (row["opened_by"] != "created")
        if row["closed_at"] is None and row["summary"] is not None and not reopened:
            yield f"session {row['number']} is open and has a summary"


def _labels(told: Told, stored: Stored) -> Iterator[str]:
    """Every message is in one session of its conversation: those in the window, and no others, in the current one."""
    known = {row["id"] for row in stored.sessions}
    labels: dict[str, set[str]] = {}
    for row in stored.messages:
        labels.setdefault(row["turn_id"], set()).add(row["session_id"])
    for turn, of in labels.items():
        if len(of) != 1 or not of <= known:
            yield f"the messages of turn {turn} are in {sorted(of)}"
    current = stored.session(stored.conversation["session_id"])
    path = stored.path()
    start = path.index(current["begins_after"]) + 1 if current["begins_after"] in path else 0
    if current["begins_after"] is not None and start == 0:
        yield f"session {current['number']} begins after a turn that is not on the path"
    for place, turn in enumerate(path):
        if (labels[turn] == {current["id"]}) != (place >= start):
            where = f"{sorted(labels[turn])}, and the window of {current['id']} begins at {start}"
            yield f"turn {place + 1} of the path is in {where}"


def _commits(told: Told, stored: Stored) -> Iterator[str]:
    """A compaction commits only if nobody went to another session since it began, and only one of two does."""
    first = stored.sessions[0]["id"]
    for place, decision in enumerate(stored.decisions):
        opened = stored.session(decision["subject"])
        resumed = decision["why"].startswith("/resume") or not json.loads(decision["numbers"])
        if resumed or opened["opened_by"] != "compaction":
            continue
        before = [first, *(row["subject"] for row in stored.decisions)][place]
        if opened["parent_id"] != before:
            yield f"a compaction of {opened['parent_id']} was committed in {before}"
        summary = stored.session(opened["parent_id"])["summary"]
        asked = _made(told, summary)
        later = [row for row in stored.decisions[place + 1 :] if row["why"].startswith("/resume")]
        if asked is None and not later:
            yield f"the summary of the session before {opened['id']} is none that the model made"
        if asked is not None and asked.changes != place and not later:
            yield f"a compaction began at change {asked.changes} and was committed as change {place}"


def _made(told: Told, summary: str | None) -> Asked | None:
    """The request that a stored summary came from; it may hold more than was answered."""
    number = SUMMARY.search(summary or "")
    return told.witness.asked[int(number[1]) - 1] if number else None


def _jobs(told: Told, stored: Stored) -> Iterator[str]:
    """What a crash left is finished or has been tried often enough."""
    for job in stored.jobs:
        if job["status"] not in ("finished", "failed"):
            yield f"the job {job['kind']} is {job['status']} ({job['attempts']} attempts, due {job['due_at']})"


def _summaries(told: Told, stored: Stored) -> Iterator[str]:
    """A session that was left for another one has its summary, or was tried: no crash forgets it."""
    tried = {job["subject"] for job in stored.jobs if job["kind"] == "summarise"}
    for row in stored.sessions:
        left = row["closed_by"] in ("new", "resume") and row["ends_with"] != row["begins_after"]
        if left and row["summary"] is None and row["id"] not in tried:
            yield f"session {row['number']} has no summary, and nobody was asked for one"


def _commands(told: Told, stored: Stored) -> Iterator[str]:
    """A command that was answered is stored once, and is refused only for its own reasons."""
    answered = Counter(c.typed for c in told.commanded if c.failed == "" and not c.waits)
    answered += Counter(commands_done(stored))
    unheard = Counter(c.typed for c in told.commanded if c.failed is None)
    kept = Counter((row["name"], row["argument"]) for row in stored.commands)
    for typed in answered | unheard:
        least = answered[typed]
        if not least <= kept[typed.name, typed.argument] <= least + unheard[typed]:
            yield f"/{typed.name} was answered {least} times and is stored {kept[typed.name, typed.argument]} times"
    for commanded in told.commanded:
        if commanded.failed and not commanded.failed.startswith(MAY_FAIL):
            yield f"/{commanded.typed.name} failed: {commanded.failed}"


def _window(told: Told, stored: Stored) -> Iterator[str]:
    """The last question sees each question of its session and of the sessions that were summed up for it, no other."""
    chats = [asked for asked in told.witness.asked if asked.purpose == "chat"]
    if not chats:
        return
    last = chats[-1]
    wanted = _in_window(stored, last)
    seen = set(last.questions)
    if lost := wanted - seen:
        yield f"the last window has lost {sorted(lost)}"
    on_path = {name for turn in stored.path() for name in stored.asked()[turn]}
    if told.sent[-1].name not in seen:
        yield "the last question was not asked"
    if foreign := seen - on_path:
        yield f"the last window shows {sorted(foreign)}, which is not on its path"


def _in_window(stored: Stored, last: Asked) -> set[str]:
    """The questions between the last `/new` and the last question on the path."""
    path, asked = stored.path(), stored.asked()
    session = _current_at(stored, last)
    while session["inherits"] and session["parent_id"] is not None:
        session = stored.session(session["parent_id"])
    start = path.index(session["begins_after"]) + 1 if session["begins_after"] in path else 0
    return {name for turn in path[start:] for name in asked[turn]}


def _current_at(stored: Stored, last: Asked) -> Row:
    """The session that was current when the last question was asked; a compaction may have followed it."""
    first = next(row["id"] for row in stored.sessions if row["opened_by"] == "created")
    opened = [first, *(row["subject"] for row in stored.decisions)]
    return stored.session(opened[last.changes])


def _followed(told: Told, stored: Stored) -> Iterator[str]:
    """A follower gets every packet that is stored once and in order, and the end that the turn has."""
    status = {row["id"]: row["status"] for row in stored.turns}
    for heard in told.heard:
        if heard.turn_id is None:
            continue
        numbers, turn = heard.numbers, heard.turn_id
        if numbers != sorted(set(numbers)):
            yield f"the packets of {turn} came as {numbers}"
        missed = [(one, next) for one, next in pairwise([0, *numbers]) if next != one + 1 and not one < GAP <= next]
        if missed:
            yield f"between the packets {missed[0]} of {turn} some did not come"
        if heard.ended is None:
            continue
        if heard.ended != status.get(turn):
            yield f"{turn} was {heard.ended} for its follower, and is {status.get(turn)}"
        kept = {n for row in stored.packets if row["turn_id"] == turn for n in range(row["first"], row["last"] + 1)}
        if lost := kept - set(numbers):
            yield f"the packets {sorted(lost)} of {turn} are stored and did not come"


def _log(told: Told, stored: Stored) -> Iterator[str]:
    """Nothing failed inside the server."""
    for line in told.log:
        if line["event"] not in EXPECTED_LOG:
            yield f"the log says: {line['event']} ({line.get('error', '')})"


__all__ = ["CONVERSATION", "broken_laws"]
