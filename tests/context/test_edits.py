"""An edited question is another branch: what stands before it stays, byte for byte, whatever was decided elsewhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from hypothesis import given

from lamella.context.assemble import assemble
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Turn
from lamella.core.prompt import Lifetime, Segment

from .growing import Grown, Sent, grown
from .laws import as_sent, content
from .plans import laws
from .wires import WIRES, blocks_of


def edited(conversation: Grown, sent: Sent) -> Sent:
    """The first request of the branch where this turn's question was edited, after all that was decided since."""
    steps = {step.id for turn in sent.context.history for step in turn.steps}
    last = conversation.sent[-1].decisions
    elsewhere = [d for d in last if d.kind is DecisionKind.PRUNE and d.outcome not in steps]
    known: tuple[Decision, ...] = (*sent.decisions, *elsewhere)
    user = replace(sent.context.turn.user, id="msg_edited", text="No: something else.", attachments=())
    context = replace(sent.context, turn=Turn("turn_edited", user), decisions=known)
    return Sent(context, assemble(context, sent.layout), None)


def before_the_turn(sent: Sent) -> list[Segment]:
    """What lasts in front of everything that belongs to the running turn."""

    def lasts(segment: Segment) -> bool:
        return segment.lifetime is Lifetime.SESSION and not segment.id.startswith(sent.context.turn.id)

    return list(takewhile(lasts, sent.assembled.prompt.segments))


@laws
@given(grown())
def test_what_stands_before_an_edited_question_stays(conversation: Grown) -> None:
    for sent in conversation.sent:
        if sent.context.turn.steps or any(d.first_changed for d in sent.assembled.decisions):
            continue
        branch = edited(conversation, sent)
        if any(decision.first_changed for decision in branch.assembled.decisions):
            continue
        kept, same = before_the_turn(sent), before_the_turn(branch)
        assert [content(segment) for segment in same] == [content(segment) for segment in kept]
        ids = {segment.id for segment in kept}
        for wire in WIRES:
            old = [as_sent(block) for block in blocks_of(sent.assembled, wire) if block.segment in ids]
            assert [as_sent(block) for block in blocks_of(branch.assembled, wire)[: len(old)]] == old


@laws
@given(grown())
def test_a_regenerated_answer_is_asked_for_with_the_same_bytes(conversation: Grown) -> None:
    """The same question once more, from the decisions that it left: nothing is decided again."""
    for sent in conversation.sent:
        again = assemble(replace(sent.context, decisions=sent.decisions), sent.layout)
        assert again.decisions == ()
        assert again.prompt == sent.assembled.prompt
