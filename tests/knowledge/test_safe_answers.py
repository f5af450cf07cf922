"""Several restricted bases in one search: a few are asked at a time, and all share one time limit."""

from __future__ import annotations

import asyncio

import pytest

from lamella.knowledge.restricted.material import Chunk
from lamella.knowledge.restricted.safe_answers import ModelReply, Question, SafeAnswers, SafeSettings
from lamella.knowledge.restricted.summary import Reason
from lamella.knowledge.restricted.wordlists import lexicons
from leaking.harmless import HARMLESS
from leaking.restricted_base import reply

pytestmark = pytest.mark.anyio

CHUNK = Chunk("doc:0", "Lease", (), "The tenant keeps geese.")


class Counting:
    """A second model that notes how many questions it holds at once, and answers the first `answers` of them."""

    name = "second"

    def __init__(self, answers: int) -> None:
        self._left = answers
        self._held = 0
        self.most = 0
        self.asked = 0

    async def ask(self, prompt: str, material: str) -> ModelReply:
        self.asked += 1
        self._held += 1
        self.most = max(self.most, self._held)
        try:
            await asyncio.sleep(0)
            if self._left == 0:
                await asyncio.Event().wait()
            self._left -= 1
            return ModelReply(reply(HARMLESS[0]), whole=True)
        finally:
            self._held -= 1


async def _reasons(model: Counting, seconds: float, bases: int) -> list[Reason]:
    answers = SafeAnswers(model, SafeSettings(seconds=seconds, at_once=3), lexicons)
    await answers.ready()
    patience = answers.patience()
    questions = [Question("user_bob", f"kb_{number}", "What is owed?") for number in range(bases)]
    made = await asyncio.gather(*(answers.answer(question, [CHUNK], {}, patience) for question in questions))
    return [answered.safe.reason for answered in made]


async def test_a_few_bases_of_a_search_are_asked_at_a_time() -> None:
    model = Counting(answers=20)
    assert await _reasons(model, 30, 20) == [Reason.ANSWERED] * 20
    assert (model.asked, model.most) == (20, 3)


async def test_the_bases_of_a_search_share_one_time_limit() -> None:
    model = Counting(answers=4)
    reasons = await _reasons(model, 0.2, 20)
    # The four that were answered in time are told; those that hang and those that wait behind them end together.
    assert reasons.count(Reason.ANSWERED) == 4
    assert reasons.count(Reason.TIMED_OUT) == 16
    assert model.asked == 7
