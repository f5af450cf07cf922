"""Which files are in the window: every one that fits, decided once, the newest first (law 7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.context.assemble import Assembled, assemble
from lamella.context.choices import INCLUDED, LISTED
from lamella.context.input import ContextInput
from lamella.context.layouts.lamella import LAMELLA
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded
from lamella.core.messages import Attachment, Text, Turn, TurnStatus, UserMessage
from lamella.core.prompt import Kind, Sampling

from .plans import BINDING, GPT, laws
from .wires import NOW


def attachment(file_id: str, document: int, tokens: int, text: str | None = "words") -> Attachment:
    return Attachment(file_id, document, f"{file_id}.txt", "text/plain", 10, tokens, text)


def turn(number: int, *attachments: Attachment) -> Turn:
    return Turn(f"turn_{number}", UserMessage(f"msg_{number}", "What is in it?", NOW, "UTC", 5, attachments))


def context(budget: int, *turns: Turn) -> ContextInput:
    history = tuple(replace(turn, status=TurnStatus.FINISHED) for turn in turns[:-1])
    return ContextInput(BINDING, budget, Sampling(1_000), "Help.", (), history, turns[-1])


def outcomes(assembled: Assembled) -> dict[str, str]:
    return {decision.subject: decision.outcome for decision in assembled.decisions}


def shown(assembled: Assembled) -> str:
    """What the model reads of the files."""
    segments = [segment for segment in assembled.prompt.segments if segment.kind is Kind.FILES]
    parts = [part for segment in segments for message in segment.messages for part in message.parts]
    return "\n".join(part.text for part in parts if isinstance(part, Text))


sizes = st.lists(st.integers(1, 900), max_size=4)


@laws
@given(st.lists(sizes, min_size=1, max_size=3), st.integers(100, 2_500), st.sampled_from((0.5, 1.0, 1.4, 2.9)))
def test_a_window_is_only_refused_when_listing_every_file_would_not_help(
    tokens: list[list[int]], budget: int, calibration: float
) -> None:
    """Sizes around the budget, and the same few files attached again and again."""
    turns, document = [], 0
    for number, row in enumerate(tokens):
        files = [attachment(f"file_{i}", document + i + 1, size) for i, size in enumerate(row)]
        document += len(files)
        turns.append(turn(number, *files))
    asked = replace(context(budget, *turns), calibration=calibration)
    if fits(replace(asked, decisions=tuple(listing(file) for turn in turns for file in turn.user.attachments))):
        made = assemble(asked, LAMELLA)
        listed = [d for d in made.decisions if d.outcome == LISTED]
        assert all(d.numbers["tokens"] > d.numbers["room"] for d in listed)
    else:
        with pytest.raises(ContextLengthExceeded):
            assemble(asked, LAMELLA)


def listing(file: Attachment) -> Decision:
    """The decision that lists a file, whatever room there is."""
    return Decision(DecisionKind.ADMISSION, f"{file.file_id}#{file.document}@{BINDING.name}", LISTED, "engine", "")


def fits(context: ContextInput) -> bool:
    try:
        assemble(context, LAMELLA)
    except ContextLengthExceeded:
        return False
    return True


def test_the_newest_files_are_included_first() -> None:
    made = assemble(context(1_500, turn(0, attachment("old", 1, 900)), turn(1, attachment("new", 2, 900))), LAMELLA)
    assert outcomes(made) == {"new#2@claude-opus-5-5": INCLUDED, "old#1@claude-opus-5-5": LISTED}
    assert '"document":1,"title":"old.txt","metadata":"text/plain, about 900 tokens; not in the window' in shown(made)
    assert '"file_id":"old"' in shown(made)
    assert '"document":2,"title":"new.txt","metadata":"text/plain","contents":"words"' in shown(made)


def test_what_was_decided_stays_when_there_is_more_room_or_less() -> None:
    asked = context(1_500, turn(0, attachment("old", 1, 900)), turn(1, attachment("new", 2, 900)))
    first = assemble(asked, LAMELLA)
    for budget in (1_300, 100_000):
        again = assemble(replace(asked, budget=budget, decisions=first.decisions), LAMELLA)
        assert again.decisions == ()
        assert shown(again) == shown(first)


def test_a_file_attached_again_is_decided_again() -> None:
    """It stands in the window twice, so its second text has to fit beside the first."""
    first = assemble(context(1_500, turn(0, attachment("file", 1, 900))), LAMELLA)
    asked = context(1_500, turn(0, attachment("file", 1, 900)), turn(1, replace(attachment("file", 1, 900), use=1)))
    second = assemble(replace(asked, decisions=first.decisions), LAMELLA)
    assert outcomes(first) == {"file#1@claude-opus-5-5": INCLUDED}
    assert outcomes(second) == {"file#1.1@claude-opus-5-5": LISTED}


def test_every_model_has_its_own_decision() -> None:
    asked = context(1_500, turn(0, attachment("file", 1, 900)))
    first = assemble(asked, LAMELLA)
    other = assemble(replace(asked, model=GPT, budget=500, decisions=first.decisions), LAMELLA)
    assert outcomes(other) == {"file#1@gpt-6.1-sol": LISTED}


def test_a_file_without_text_needs_no_decision() -> None:
    unread = replace(attachment("scan", 1, 0, None), reason="it is encrypted")
    made = assemble(context(1_500, turn(0, unread)), LAMELLA)
    assert made.decisions == ()
    assert '"metadata":"text/plain; could not be read: it is encrypted","file_id":"scan"' in shown(made)


def test_an_empty_file_is_included_as_it_is() -> None:
    made = assemble(context(1_500, turn(0, attachment("empty", 1, 0, ""))), LAMELLA)
    assert outcomes(made) == {"empty#1@claude-opus-5-5": INCLUDED}
    assert '"contents":""' in shown(made)


def test_the_report_names_what_is_listed_and_the_decision_says_why() -> None:
    made = assemble(context(800, turn(0, attachment("big", 1, 5_000))), LAMELLA)
    assert [(note.segment, note.text) for note in made.report.notes] == [
        ("turn_0/files", "“big.txt” is listed, not included")
    ]
    (decision,) = made.decisions
    assert "“big.txt” has about 5000 tokens, more than is free" in decision.why


def test_a_question_that_never_fits_says_what_to_do() -> None:
    long = Turn("turn_0", UserMessage("msg_0", "x" * 9_000, NOW, "UTC", 2_000))
    with pytest.raises(ContextLengthExceeded) as alone:
        assemble(context(1_000, long), LAMELLA)
    assert "Shorten the message, or attach the text as a file" in str(alone.value.hint)
    assert "has about 2,0" in alone.value.message
    later = assemble(context(1_000, long, turn(1)), LAMELLA)
    assert [decision.kind for decision in later.decisions] == [DecisionKind.LEFT_OUT]
