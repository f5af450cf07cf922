"""Law 7 as a plain function over a grown conversation: what is in the window fits, and what gives way does so in order.

Old results go first, then results that were not sent yet are cut, then the engine may compact, then documents are
listed, then the oldest turns leave. What can't be helped is an error that says so. The question stands word for word,
its files at least by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lamella.context.choices import INCLUDED, LISTED, KnownDecisions, documents_of, usable
from lamella.context.fit import SLACK
from lamella.context.input import MARGIN
from lamella.context.layout import OldResults
from lamella.context.results import LEAST_CUT, extracts_of, notices_of, stubs_of
from lamella.context.system_prompt import time_suffix
from lamella.core.counting import MESSAGE_TOKENS, count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.json import Json, decode_object
from lamella.core.messages import Attachment, Image, Part, Reasoning, Step, StopReason, Text, ToolResult, Turn
from lamella.core.prompt import Kind, Segment, Zone

from .growing import Grown, Refused, Sent

A_LITTLE = 10
"""Tokens by which the count of a message may be wrong: zones have long names."""


def law_7(conversation: Grown) -> None:
    """See above."""
    for sent in conversation.sent:
        expect_it_fits(sent)
        expect_the_question(sent)
        for turn in sent.path:
            expect_documents(sent, f"{turn.id}/files", turn.user.files)
        expect_the_project(sent)
        expect_order(sent)
        expect_cuts(sent)
        expect_room_for_a_step(conversation, sent)
    for refused in conversation.refused:
        expect_reasons(refused)
    if not conversation.plan.can_compact:
        assert not [d for sent in conversation.sent for d in sent.decisions if d.subject == "session"]
    expect_decided_once(conversation)


def expect_it_fits(sent: Sent) -> None:
    """The estimate with its margin is within the budget, and every segment counts what it holds."""
    report = sent.assembled.report
    assert report.local == sum(segment.tokens for segment in sent.assembled.prompt.segments)
    assert report.estimate == int(report.local * sent.context.calibration)
    assert report.local * sent.context.calibration * (1 + MARGIN) <= sent.context.budget + 1e-6
    assert report.budget == sent.context.budget
    for segment in sent.assembled.prompt.segments:
        if segment.kind in (Kind.SYSTEM, Kind.AGENT, Kind.DYNAMIC, Kind.REMINDER, Kind.USER):
            assert segment.tokens + A_LITTLE >= count_tokens(text_of(segment))
        if segment.kind is Kind.STEP:
            assert segment.tokens >= sum(count_tokens(r.content) for r in results_in(segment) if not r.is_error)


def text_of(segment: Segment) -> str:
    """The text of a segment's messages."""
    return "\n".join(part.text for m in segment.messages for part in m.parts if isinstance(part, Text))


def results_in(segment: Segment) -> list[ToolResult]:
    """The results of a step, as they are shown."""
    return [part for message in segment.messages for part in message.parts if isinstance(part, ToolResult)]


def expect_the_question(sent: Sent) -> None:
    """Word for word, with its moment and every picture, or a text in the place of a picture and a note."""
    user = sent.context.turn.user
    segment = the(sent, f"{sent.context.turn.id}/user")
    assert segment is not None
    (message,) = segment.messages
    *pictures, last = message.parts
    assert last == Text(f"{user.text}\n\n{time_suffix(user.sent_at, user.timezone)}")
    expect_pictures(sent, segment, pictures, [a for a in user.attachments if a.image is not None])
    assert any(isinstance(part, Image) for part in pictures) <= sent.assembled.prompt.sampling.images


def expect_pictures(sent: Sent, segment: Segment, parts: Sequence[Part], shown: Sequence[Attachment]) -> None:
    """Each picture stands after its name, in order; a text with its name and a note stands where it is not shown."""
    known, rest, counted = KnownDecisions(sent.context.model.name, sent.decisions), list(parts), 0
    for attachment in shown:
        name = rest.pop(0)
        assert isinstance(name, Text)
        assert f"“{attachment.title}”" in name.text
        listed = segment.kind is Kind.PROJECT and not is_included(sent, known, attachment, segment.id)
        if sent.context.model.images is None or listed:
            assert noted(sent, segment.id, attachment.title)
            continue
        picture = rest.pop(0)
        assert picture == attachment.image
        assert isinstance(picture, Image)
        counted += sent.context.model.images.tokens(picture.width, picture.height)
    assert segment.tokens * sent.context.model.token_factor >= counted
    assert rest == []


def is_included(sent: Sent, known: KnownDecisions, attachment: Attachment, segment: str) -> bool:
    """Whether something stands whole in its segment, by what was decided."""
    outcome = known.of_document(attachment)
    travels = not sent.layout.is_fixed(Kind.PROJECT) and sent.context.project is not None
    if travels and sent.context.project is not None and segment == sent.context.project.id:
        return segment == included_whole(sent, known) and outcome in (None, INCLUDED)
    return outcome == INCLUDED


def the(sent: Sent, id: str) -> Segment | None:
    """The segment of this id."""
    return next((segment for segment in sent.assembled.prompt.segments if segment.id == id), None)


def noted(sent: Sent, segment: str, title: str) -> bool:
    """Whether the report says something of this document."""
    return any(note.segment == segment and title in note.text for note in sent.assembled.report.notes)


def expect_documents(sent: Sent, id: str, attachments: Sequence[Attachment]) -> None:
    """Every document is there with its whole text, or by name, id and size with a note: as it was decided."""
    if not attachments:
        return
    segment = the(sent, id)
    assert segment is not None
    shown = documents_in(segment)
    assert [form["document"] for form in shown] == [attachment.document for attachment in attachments]
    known = KnownDecisions(sent.context.model.name, sent.decisions)
    for form, attachment in zip(shown, attachments, strict=True):
        assert form["title"] == attachment.title
        if attachment.text is None:
            assert form["file_id"] == attachment.file_id
        elif "contents" in form:
            assert form["contents"] == attachment.text
            assert is_included(sent, known, attachment, id)
        else:
            assert not is_included(sent, known, attachment, id)
            assert form["file_id"] == attachment.file_id
            assert f"about {attachment.tokens} tokens" in str(form["metadata"])
            assert noted(sent, id, attachment.title)


def documents_in(segment: Segment) -> list[Mapping[str, Json]]:
    """The documents of a segment, in order."""
    text = text_of(segment)
    found = decode_object(text[text.index('{"documents": [') :])["documents"]
    assert isinstance(found, list)
    return [form for form in found if isinstance(form, dict)]


def included_whole(sent: Sent, known: KnownDecisions) -> str:
    """The id of a project that travels and is in as one block."""
    project = sent.context.project
    return project.id if project is not None and known.of_project(project) == INCLUDED else ""


def expect_the_project(sent: Sent) -> None:
    """In the window of every layout: its instructions word for word, each of its files by name at least."""
    project = sent.context.project
    if project is None or not (project.files or project.instructions):
        return
    segment = the(sent, project.id)
    assert segment is not None
    assert project.instructions in text_of(segment)
    pictures = [file for file in project.files if file.image is not None]
    documents = [file for file in project.files if file.image is None]
    expect_documents(sent, project.id, documents)
    (message,) = segment.messages
    texts = 1 if project.instructions or documents else 0
    expect_pictures(sent, segment, message.parts[: len(message.parts) - texts], pictures)


def expect_order(sent: Sent) -> None:
    """Nothing gives way while something before it in the order could: every decision has its reason and figures."""
    made = sent.assembled.decisions
    assert all(decision.why and decision.who == "engine" for decision in made)
    cuts = [d for d in made if d.kind is DecisionKind.CUT]
    lists = [d for d in made if d.outcome == LISTED and d.first_changed is not None]
    if cuts or lists:
        assert not shown_old_results(sent)
    if lists:
        assert not sent.context.turn.steps or not whole_new_results(sent)
    if any(decision.kind is DecisionKind.LEFT_OUT for decision in made):
        assert not shown_old_results(sent)
        assert not sent.context.turn.steps or not whole_new_results(sent)
        before = KnownDecisions(sent.context.model.name, sent.context.decisions)
        stay = [a for a in documents_of(sent.shown) if before.of_document(a) == INCLUDED]
        assert all(known_outcome(sent, attachment) != INCLUDED for attachment in stay)
    if lists and sent.context.can_compact:
        listed = sum(decision.numbers["tokens"] for decision in lists)
        assert held_by_history(sent) < listed + usable(sent.context) * SLACK


def shown_old_results(sent: Sent) -> list[str]:
    """Calls whose results are old and shown, and not too dear to touch (they may hold thinking that binds)."""
    binds = sent.context.model.binds_thinking and any(
        isinstance(part, Reasoning) for step in sent.context.turn.steps for part in step.parts
    )
    turns, current = sent.shown.history if sent.layout.old_results is not OldResults.NOTICE else (), sent.context.turn
    old = [(turn, step) for turn in turns for step in turn.steps]
    old += [] if binds else [(current, step) for step in current.steps[:-1]]
    return [r.call_id for turn, step in old if larger_than_stubs(sent, step) for r in shown_whole(sent, turn, step)]


def larger_than_stubs(sent: Sent, step: Step) -> bool:
    """Whether the window would be smaller with stubs for all results of a step: names may be long, too."""
    segment = the(sent, step.id)
    shown, stubs = results_in(segment) if segment is not None else (), stubs_of(step)
    return sum(count_tokens(r.content) for r in shown) > sum(count_tokens(stub.content) for stub in stubs)


def shown_whole(sent: Sent, turn: Turn, step: Step) -> Iterator[ToolResult]:
    """The results of a step that stand in the window with a text of their own, longer than any stub."""
    segment = the(sent, step.id)
    stored, stubs = {result.call_id: result for result in step.results}, stub_texts(turn, step)
    for result in results_in(segment) if segment is not None else ():
        given = stored.get(result.call_id)
        if given is None or result.content in stubs:
            continue
        if count_tokens(result.content) > count_tokens(given.name):
            yield result


def stub_texts(turn: Turn, step: Step) -> set[str]:
    """All that may stand for the results of a step once they are old."""
    stubs = (*stubs_of(step), *notices_of(step), *stubs_of(step, extracts=extracts_of(turn, step)))
    return {stub.content for stub in stubs}


def whole_new_results(sent: Sent) -> list[str]:
    """Calls of the newest step whose results are larger than a cut one would be."""
    turn = sent.context.turn
    whole = shown_whole(sent, turn, turn.steps[-1])
    return [result.call_id for result in whole if count_tokens(result.content) > LEAST_CUT]


def held_by_history(sent: Sent) -> int:
    """Local tokens that earlier turns have in the window, at least: what their messages cost beside their text is not
    in it."""
    segments = [s for s in sent.assembled.prompt.segments if s.zone is Zone.HISTORY]
    asked = sum(turn.user.tokens for turn in sent.shown.history)
    return asked + sum(segment.tokens - MESSAGE_TOKENS for segment in segments if segment.kind is Kind.STEP)


def expect_cuts(sent: Sent) -> None:
    """A cut result is a notice, then its head, then its tail, all of it within its share."""
    rooms = {d.subject: d.numbers["room"] for d in sent.decisions if d.kind is DecisionKind.CUT}
    stored = {r.call_id: (turn, step, r) for turn in sent.path for step in turn.steps for r in step.results}
    shown = {r.call_id: r for segment in sent.assembled.prompt.segments for r in results_in(segment)}
    for cut in KnownDecisions(sent.context.model.name, sent.decisions).cuts:
        if cut.call_id not in stored:
            continue  # it was summarised
        (turn, step, whole), part = stored[cut.call_id], shown[cut.call_id]
        if part.content in stub_texts(turn, step):
            continue  # it is old
        notice, _, rest = part.content.partition("\n")
        assert notice.startswith("[Cut to fit the window: ")
        missing = len(whole.content) - cut.head - cut.tail
        assert f"{missing} of {len(whole.content)} characters" in notice
        assert rest == f"{whole.content[: cut.head]}\n[…]\n{whole.content[len(whole.content) - cut.tail :]}"
        assert cut.head >= cut.tail
        room = rooms[f"{cut.call_id}@{sent.context.model.name}"]
        assert room >= LEAST_CUT
        assert count_tokens(part.content) <= room


def expect_room_for_a_step(conversation: Grown, sent: Sent) -> None:
    """A window that gave way has room for a small step more, unless it had nothing more to give."""
    gave = [decision for decision in sent.assembled.decisions if gives_way(decision)]
    if not gave or usable(sent.context) * SLACK < 100 or exhausted(sent, gave):
        return
    small = Step("step_more", sent.context.model.name, (Text("So."),), StopReason.END_TURN, "", 2)
    turn = replace(sent.context.turn, steps=(*sent.context.turn.steps, small))
    more = replace(sent.context, decisions=sent.decisions, turn=turn)
    again = conversation.code.assemble(more, sent.layout, None)
    assert not [decision for decision in again.decisions if gives_way(decision)]


def gives_way(decision: Decision) -> bool:
    """Whether something that was in the window, or would be, is so no more or not whole."""
    return decision.kind in (DecisionKind.PRUNE, DecisionKind.CUT, DecisionKind.LEFT_OUT) or (
        decision.kind is DecisionKind.ADMISSION and decision.first_changed is not None
    )


def exhausted(sent: Sent, gave: Sequence[Decision]) -> bool:
    """Whether the last thing that gave way gave all that it could."""
    last = gave[-1]
    if last.kind is DecisionKind.PRUNE:
        return last.numbers["tokens"] < last.numbers["needed"] + int(usable(sent.context) * SLACK)
    if last.kind is DecisionKind.CUT:
        return last.numbers["room"] <= LEAST_CUT
    if last.kind is DecisionKind.LEFT_OUT:
        return not sent.shown.history
    return all(known_outcome(sent, attachment) != INCLUDED for attachment in documents_of(sent.shown))


def known_outcome(sent: Sent, attachment: Attachment) -> str | None:
    """What was decided about a document."""
    return KnownDecisions(sent.context.model.name, sent.decisions).of_document(attachment)


def expect_reasons(refused: Refused) -> None:
    """The error gives the figures, names what is too large, and says what to do; no compaction was in vain."""
    error, context = refused.error, refused.context
    assert not refused.compacted
    assert f"{context.model.name} takes {context.budget:,} here" in error.message
    figure = re.search(r"about ([\d,]+) tokens", error.message)
    assert figure is not None
    assert int(figure[1].replace(",", "")) * (1 + MARGIN) >= context.budget - 2
    assert error.hint
    assert error.param or " of this answer " in error.message
    if context.turn.user.tokens * 2 > usable(context) and error.param == "text":
        assert "Question" in error.message


def expect_decided_once(conversation: Grown) -> None:
    """What was decided is known ever after and does not flip back by itself.

    What is listed stays so, a cut stays as it is, the boundary only rises.
    """
    made: dict[tuple[str, str], list[str]] = {}
    for sent in conversation.sent:
        known = {(decision.kind, decision.subject, decision.outcome) for decision in sent.context.decisions}
        assert all((*about, outcome) in known for about, outcomes in made.items() for outcome in outcomes)
        for decision in sent.assembled.decisions:
            made.setdefault((decision.kind, decision.subject), []).append(decision.outcome)
    for (kind, _), outcomes in made.items():
        if kind == DecisionKind.ADMISSION:
            assert outcomes in ([INCLUDED], [LISTED], [INCLUDED, LISTED])
        if kind in (DecisionKind.CUT, DecisionKind.PROJECT):
            assert len(outcomes) == 1
    steps = list(conversation.made_by)
    boundaries = [
        KnownDecisions(sent.context.model.name, sent.decisions).boundary(sent.path) for sent in conversation.sent
    ]
    places = [steps.index(boundary) for boundary in boundaries if boundary is not None]  # None: it was summarised
    assert places == sorted(places)
