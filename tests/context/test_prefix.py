"""Law 1: consecutive requests of a line agree up to the first thing that ended or that a decision names."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given

from lamella.core.prompt import Lifetime, Segment, WireBlock

from .conversations import Grown, Sent, grown, in_lamella, laws
from .wires import WIRES, adapter, wired


def lasting(before: Sent, after: Sent) -> set[str]:
    """The segments of `before` in front of the first one that `after` need not have any more."""
    same_turn = before.context.turn.id == after.context.turn.id
    named = named_since(before, after)

    def lasts(segment: Segment) -> bool:
        ended = segment.lifetime is Lifetime.STEP or (segment.lifetime is Lifetime.TURN and not same_turn)
        return not ended and segment.id not in named

    return {segment.id for segment in takewhile(lasts, before.assembled.prompt.segments)}


def named_since(before: Sent, after: Sent) -> set[str]:
    """The segments that decisions between two requests name as first changed."""
    known = set(map(id, before.context.decisions + before.assembled.decisions))
    since = (d for d in after.context.decisions + after.assembled.decisions if id(d) not in known)
    return {decision.first_changed for decision in since if decision.first_changed is not None}


def as_sent(block: WireBlock) -> tuple[str, str, bytes]:
    return block.level, block.role, block.data


@pytest.mark.parametrize("wire", WIRES)
@laws
@given(grown())
def test_what_lasts_is_sent_again_block_by_block(wire: str, conversation: Grown) -> None:
    for before, after in conversation.consecutive():
        kept = lasting(before, after)
        old = [as_sent(block) for block in wired(before, wire).blocks if block.segment in kept]
        new = [as_sent(block) for block in wired(after, wire).blocks]
        assert new[: len(old)] == old


@laws
@given(grown())
def test_segments_that_last_keep_their_place_and_content(conversation: Grown) -> None:
    for before, after in conversation.consecutive():
        old = [(s.id, s.kind, s.digest, s.messages, s.tools) for s in before.assembled.prompt.segments]
        new = [(s.id, s.kind, s.digest, s.messages, s.tools) for s in after.assembled.prompt.segments]
        length = len(lasting(before, after))
        assert new[:length] == old[:length]


@pytest.mark.parametrize("wire", WIRES)
@laws
@given(grown())
def test_the_salts_of_a_line_stay(wire: str, conversation: Grown) -> None:
    for before, after in conversation.consecutive():
        model = adapter(wire, after.context.model)
        assert model.salts(before.context.sampling) == model.salts(after.context.sampling)


@laws
@given(grown(layouts=in_lamella))
def test_only_reminders_are_short_lived(conversation: Grown) -> None:
    """In layout `lamella` nothing else excuses a changed prefix, and no decision of an assembly changes anything."""
    for sent in conversation.sent:
        short = [s.kind for s in sent.assembled.prompt.segments if s.lifetime is not Lifetime.SESSION]
        assert set(short) <= {"reminder"}
        assert all(decision.first_changed is None for decision in sent.assembled.decisions)


@laws
@given(grown(layouts=in_lamella))
def test_an_answered_request_is_a_prefix_of_the_next_one_with_its_answer(conversation: Grown) -> None:
    """Where thinking is bound to what stood before it, that is the whole request; elsewhere all but its reminder."""
    for before, after in conversation.consecutive():
        ids = [segment.id for segment in after.assembled.prompt.segments]
        answers = [id for id in ids if conversation.made_by.get(id) is before]
        if answers and not named_since(before, after):
            lasts = lasting(before, after)
            binds = before.context.model.binds_thinking
            stays = [s.id for s in before.assembled.prompt.segments if binds or s.id in lasts]
            assert ids[: len(stays) + 1] == [*stays, answers[0]]
