"""Agent and project: a site manager's assistant with about 20,000 tokens of project documents, 14 turns in an hour."""

from __future__ import annotations

from writing.building import project_files
from writing.parts import Json, Telling, said

SYSTEM = """You are the assistant of an office that plans and supervises building works. Answer from the documents \
that you are given, and put the number of a document in square brackets behind what rests on it. When the documents \
do not say, answer that they do not, and who would know. Give sums in euros without cents. Write short paragraphs; \
use a list only for more than three items of the same kind."""

AGENT: Json = {
    "name": "Site manager",
    "prompt": """You assist Ms Kowalczyk, who manages the renovation of the Harbour Museum for the office. She is on \
site and reads you on a telephone: begin with the answer, keep it under 120 words, and leave out \
what she knows. She decides; you prepare. When something she plans breaks a rule of the house, say \
so first and name the rule. When a sum differs between survey, offer and budget, give all three. \
Letters to trades are friendly and firm, those to the monuments office formal. Never promise a date \
on her behalf. The committee's members may read what you write.""",
    "reminder": "Name the rule of the house if one is touched. Keep to 120 words.",
}

TALK = [
    (
        "Morning. The plasterer wants to start in the map room on Thursday. Any problem with that?",
        "Yes: Thursday is an opening day, and noise above 70 decibels is allowed on Mondays and Tuesdays only, "
        "rule 1 [5]. "
        "Knocking off old plaster is louder than that. He could spend Thursday on the dust wall and the "
        "protection of the "
        "floor, which are quiet, if the room has been handed over empty with a protocol, rule 3 [5]. The minutes "
        "don't say "
        "that the exhibits of the map room have been moved; ask the museum's staff before you confirm anything.",
    ),
    (
        "What exactly is to be done in the map room, and what does he charge?",
        "The survey lists the faults of the map room with its proposals and an estimate for each [1]; the "
        "plasterer's part "
        "is the lower strip of the outer wall. His offer has its positions by room [3], with a two percent "
        "discount within "
        "ten days and without scaffold. Survey and offer don't use the same quantities, so compare them on site "
        "before you "
        "sign: measure the strip that has salt on it, and count only what he will really take off.",
    ),
    (
        "Is scaffold in anybody's offer?",
        "No. All eight offers end with the words “Scaffold not included” [3]. The budget has no position for it "
        "either: "
        "its positions are rooms [4]. For the lantern room, the roof space and both stairs you will need one. I "
        "would ask "
        "for a single scaffold for all trades; that needs two signatures of the committee, since it is above "
        "2,000 euros, "
        "rule 8 [5].",
    ),
    (
        "Draft a short mail to the committee about the scaffold.",
        "Dear members of the committee,\n\nnone of the eight offers includes scaffold, and the budget has no "
        "position for "
        "it. Four areas need one: the lantern room, the roof space and the two stairs. I propose to ask for "
        "offers for one "
        "scaffold that all trades use, and to bring them to the next meeting. The order will need the signatures "
        "of two of "
        "you. Nothing is ordered before that.\n\nKind regards\nA. Kowalczyk",
    ),
    (
        "Which trade is most over the estimate?",
        "The documents don't let me say it with certainty. The minutes record complaints that offers lie above the "
        "estimate, with a percentage for each [2], but those were raised in meetings and not checked. The sums "
        "at the end "
        "of the offers [3] are by trade, the estimates of the survey [1] are by fault, and name the trade for "
        "each. Adding "
        "the estimates by trade and setting them beside the sums is an hour's work; shall I prepare the table?",
    ),
    (
        "Not now. The joiner asks about the boards in the figurehead gallery. Turn or replace?",
        "Turn, as far as they allow it. For worn boards the survey proposes to lift and turn them and to replace "
        "only single "
        "ones [1]. Before he lifts anything: whoever finds old paint, writing or timber marks stops and calls the "
        "conservator, rule 7 [5]; under boards of that age there are often marks. He should number the boards and take "
        "photographs, so that they go back in order.",
    ),
    (
        "He found numbers in chalk on the underside. So?",
        "So he stops there and you call the conservator, rule 7 [5]. It isn't his fault, and the rule says so. "
        "He can go on "
        "elsewhere in the gallery if he doesn't walk over the opened field. Cover it with cloth, not with film, which "
        "would sweat. Note time and place; the chalk may say from which ship or yard the timber came, and the "
        "museum will "
        "be glad of it.",
    ),
    (
        "Conservator comes at 2. What else is open from the last meeting?",
        "The last meeting's items are at the end of the minutes [2]. Two of them concern you today: the question "
        "of how "
        "exhibits are moved and where they are kept, since the conservator can answer part of it, and a written "
        "statement "
        "that somebody was to ask for. I see no note that either is settled. Ask her at two where the exhibits of the "
        "figurehead gallery may stand during the works.",
    ),
    (
        "The museum sent new minutes, they're in the project now. Anything in there I must react to before Monday?",
        "There is one meeting more than before [2]. React to whatever in it asks for a written statement or puts "
        "a question "
        "off “until the costs are known”: for those you hold the numbers. If it touches the route for visitors, "
        "settle it "
        "before Wednesday, when the museum opens. Everything else can wait for the next meeting.",
    ),
    (
        "Humidity in the picture store is at 58 this morning.",
        "That is outside the range of 45 to 55 percent, and below the 60 at which works stop, rule 4 [5]. So "
        "nothing has to "
        "stop yet, but act now: close the door to the stairs, find out whether plaster is drying next door, and "
        "read the "
        "gauge every hour. Tell the conservator when she comes. If it reaches 60, stop the works in the neighbouring "
        "rooms and write down the time.",
    ),
    (
        "59.5 now.",
        "Prepare to stop. Tell the plasterer and the painter to make their places safe, so that they can leave "
        "within ten "
        "minutes, and ask the museum to run its dryers in the picture store. At 60 the works stop, rule 4 [5]; "
        "that is not "
        "yours to weigh. I would stop now what brings water into the air, fresh plaster above all.",
    ),
    (
        "Stopped plastering. Write the note for the site diary.",
        "Humidity in the picture store 58 percent in the morning, 59.5 percent at the second reading. Fresh "
        "plaster in the "
        "neighbouring room as a likely cause. Plastering stopped before the limit of 60 percent in rule 4 of the "
        "house was "
        "reached; door to the stairs closed, museum asked to run its dryers. Hourly readings by the site manager. "
        "Conservator informed at 14:00. Work is taken up again when the reading is below 55 percent for two hours.",
    ),
    (
        "Who on the committee should I call about the costs of this?",
        "The minutes name who keeps track of which question [2]; for costs it isn't always the same person. "
        "Changes above "
        "2,000 euros need two signatures before they are ordered, rule 8 [5], so call two members anyway and say "
        "the same "
        "to both. Renting dryers for a week is likely to stay below that sum. Write it into the diary with the price.",
    ),
    (
        "Good. Summarise the day in five lines for my boss.",
        "Chalk marks under the boards of the figurehead gallery; joiner works elsewhere, conservator was here at two.\n"
        "Humidity in the picture store rose to 59.5 percent; plastering stopped before the limit, dryers are running.\n"
        "Plasterer may not start loud work in the map room on Thursday; he prepares the dust wall instead.\n"
        "No offer and no budget position includes scaffold; mail to the committee is drafted.\n"
        "New minutes have arrived; what they ask of us is answered before Monday.",
    ),
]
NEW_MINUTES = 8


def trace() -> Json:
    """14 turns; before the ninth the minutes of another meeting come into the project."""
    telling = Telling("2026-03-16T08:10:00+01:00")
    for number, (user, answer) in enumerate(TALK):
        if number == NEW_MINUTES:
            telling.then("project", project=project(2))
        telling.turn(user, said(answer))
        telling.wait(seconds=75)
    return {
        "system": SYSTEM,
        "timezone": "Europe/Berlin",
        "agent": AGENT,
        "project": project(1),
        "turns": telling.turns,
    }


def project(version: int) -> Json:
    """The project with the minutes as they were then."""
    instructions = "All documents are drafts of the museum; what they say of costs has not been checked."
    return {"name": "Harbour Museum", "instructions": instructions, "files": project_files(version)}
