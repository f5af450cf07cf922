"""What changes on the way: agents come and go, a project is edited, a smaller model takes over, the server restarts."""

from __future__ import annotations

from writing.building import RULES, minutes, rooms
from writing.parts import Json, Telling, said

SYSTEM = """You are the assistant of an office that plans and supervises building works. Answer from the documents \
that you are given and say so when they don't tell. Give sums in euros without cents. Keep to short paragraphs."""

WRITER: Json = {
    "name": "Letter writer",
    "prompt": "You write the office's letters: formal, friendly, at most 120 words, and with no promise of a "
    "date. Name the "
    "document that a statement rests on. Sign with “Office for the Harbour Museum”.",
    "reminder": "At most 120 words.",
}
CHECKER: Json = {
    "name": "Checker",
    "prompt": "You read drafts as the other side would. List what they could attack, the worst first, each in "
    "one sentence, "
    "with the words of the draft that invite it. Propose a change for the first only.",
}

SURVEY: Json = {"name": "survey.md", "text": rooms(21)}
HOUSE: Json = {"name": "rules.md", "text": RULES}


def project(*files: Json) -> Json:
    """The project with these files."""
    return {"name": "Harbour Museum", "instructions": "All documents are drafts.", "files": list(files)}


def trace() -> Json:
    """Ten turns."""
    telling = Telling("2026-03-17T14:00:00+01:00")
    turn = telling.turn
    turn(
        "The stonemason complains that he can't work on Wednesdays. What do the rules say?",
        said(
            "The museum is open from Wednesday to Sunday, and loud work is allowed on Mondays and Tuesdays only, "
            "rule 1."
        ),
    )
    turn(
        "Is there quiet work he could do?", said("Setting out, cleaning by hand and taking measures. Cutting is loud.")
    )
    telling.then("agent", agent=WRITER)
    turn(
        "Write to him, please.",
        said(
            "Dear Sir,\n\nthank you for your call. According to rule 1 of the house, loud work is possible on "
            "Mondays and "
            "Tuesdays, since the museum is open on the other days. Quiet work, such as setting out and cleaning "
            "by hand, "
            "can be done on any day after you have told the site manager. We will gladly discuss with you how "
            "your days "
            "can be arranged.\n\nKind regards\nOffice for the Harbour Museum"
        ),
    )
    telling.then("agent", agent=CHECKER)
    turn(
        "What could he object to in this letter?",
        said(
            "“Can be done on any day” invites him to come on Sundays. “We will gladly discuss” may be read as an "
            "offer of "
            "other terms. “After you have told the site manager” leaves open how long before. Change the first "
            "to: “on any "
            "working day”."
        ),
    )
    telling.then("agent", agent=None)
    turn(
        "Fine. Which rooms are his at all?", said("The survey names the trade behind each estimate; his are marked so.")
    )
    telling.then("project", project=project(SURVEY, HOUSE, {"name": "minutes.md", "text": minutes(34, 6)}))
    turn(
        "I've added the committee's minutes. Do they mention him?",
        said("Yes, in several items; none of them decides on his working days. One asks for a written statement."),
    )
    telling.then("set", model="claude-haiku-4-5")
    turn("Shorter answers are enough now. Who owes that statement?", said("The person named at the end of the item."))
    turn("By when?", said("Before the next meeting; the minutes give no date."))
    telling.then("restart")
    telling.then("project", project=project(HOUSE, {"name": "minutes.md", "text": minutes(34, 6)}))
    turn("I took the survey out, it's outdated. Do the rules need a change?", said("No. Rule 1 covers the case."))
    telling.then("set", model="claude-opus-5-5")
    turn(
        "Back to the large model. Sum up in two sentences.",
        said(
            "Loud work stays on Mondays and Tuesdays, quiet work is possible on other working days. A statement to the "
            "committee is still owed before its next meeting."
        ),
    )
    return {
        "model": "claude-opus-5-5",
        "system": SYSTEM,
        "timezone": "Europe/Berlin",
        "project": project(SURVEY, HOUSE),
        "turns": telling.turns,
    }
