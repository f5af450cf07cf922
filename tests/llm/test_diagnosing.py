"""A vendor is asked why its cache was missed, and what it says becomes one delta."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.context.assemble import assemble
from lamella.context.layouts.lamella import LAMELLA
from lamella.core import deltas
from lamella.core.caching import CacheVerdict, Diagnosis
from lamella.core.ports import ChatModel
from lamella.core.prompt import WireRequest
from lamella.llm.fields import anthropic_diagnosis, openai_diagnosis

from .provider import Provider, context, listen

pytestmark = pytest.mark.anyio
LONG = "The tide turns twice a day, and the harbour with it. " * 200


def compared(model: ChatModel, against: str | None, **changes: str) -> WireRequest:
    asked = context(model, LONG, **changes)
    asked = replace(asked, sampling=replace(asked.sampling, compared_with=against))
    prompt = assemble(asked, LAMELLA).prompt
    return model.request(prompt, model.wire(prompt).blocks, ())


@pytest.mark.parametrize(
    ("vendor", "reason"), [("anthropic", "system_changed"), ("responses", "input_changed"), ("openai", None)]
)
async def test_a_vendor_says_what_changed(provider: Provider, vendor: str, reason: str | None) -> None:
    provider.script(r={"text": "Yes."})
    model = provider.model(vendor)
    first = await listen(model, compared(model, None), reply="r")
    assert first.of(deltas.Diagnosed) == []
    names = [named.id for named in first.of(deltas.AnswerNamed)]
    if reason is None:  # Chat Completions has no such thing
        assert names == []
        assert model.body(compared(model, "msg_1")) == model.body(compared(model, None))
        return
    [name] = names
    second = await listen(model, compared(model, name, system="You are brief."), reply="r")
    [told] = second.of(deltas.Diagnosed)
    assert (told.diagnosis.against, told.diagnosis.verdict, told.diagnosis.reason) == (
        name,
        CacheVerdict.CHANGED,
        reason,
    )
    assert told.diagnosis.missed > 2_000
    stranger = await listen(model, compared(model, "msg_of_nobody"), reply="r")
    assert stranger.of(deltas.Diagnosed)[0].diagnosis == Diagnosis("msg_of_nobody", CacheVerdict.NOT_FOUND)
    assert await model.count(compared(model, name)) == await model.count(compared(model, None))


@pytest.mark.parametrize(
    ("vendor", "name"), [("anthropic", "some-claude"), ("responses", "gpt-5.4"), ("responses", "some-gpt")]
)
async def test_a_model_that_does_not_have_it_is_not_asked(provider: Provider, vendor: str, name: str) -> None:
    model = provider.model(vendor, name)
    assert model.body(compared(model, "msg_1")) == model.body(compared(model, None))


async def test_nothing_of_the_caches_key_changes(provider: Provider) -> None:
    for vendor in ("anthropic", "responses"):
        model = provider.model(vendor)
        sampling = context(model).sampling
        assert model.salts(replace(sampling, compared_with="msg_1")) == model.salts(sampling)


def test_what_vendors_say_is_read_with_care() -> None:
    assert anthropic_diagnosis(None, "a") == Diagnosis("a", CacheVerdict.SAME)
    assert anthropic_diagnosis({"cache_miss_reason": None}, "a") == Diagnosis("a", CacheVerdict.PENDING)
    assert anthropic_diagnosis({"cache_miss_reason": {"type": "unavailable"}}, "a") == Diagnosis(
        "a", CacheVerdict.UNAVAILABLE
    )
    newer = {"cache_miss_reason": {"type": "moon_changed", "cache_missed_input_tokens": -3}}
    assert anthropic_diagnosis(newer, "a") == Diagnosis("a", CacheVerdict.CHANGED, "moon_changed")
    for odd in ("yes", {}, {"cache_miss_reason": 3}, {"cache_miss_reason": {"type": ["x"]}}):
        assert anthropic_diagnosis(odd, "a") is None
    assert openai_diagnosis({"type": "cache_hit"}, "a") == Diagnosis("a", CacheVerdict.SAME)
    miss = {"type": "cache_miss", "reason": "tools_changed", "cache_missed_tokens": 7}
    assert openai_diagnosis(miss, "a") == Diagnosis("a", CacheVerdict.CHANGED, "tools_changed", 7)
    for other in (None, {"type": "moon"}, {"type": "cache_miss"}, "cache_hit"):
        assert openai_diagnosis(other, "a") is None
