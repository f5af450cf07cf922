"""The spellings of a thinking effort, and what each kind of model is asked of it."""

from __future__ import annotations

import pytest

from lamella.core.errors import InvalidRequest
from lamella.core.models import RequestedThinking, asked_thinking, effort_named, tokens_of
from lamella.llm.model_table import ModelTable

TABLE = ModelTable.shipped()


@pytest.mark.parametrize(
    ("written", "effort", "tokens"),
    [
        ("off", "off", 0),
        (0, "off", 0),
        (" Low ", "low", 1_024),
        ("1024", "low", 1_024),
        (4_096, "medium", 4_096),
        ("high", "high", 16_384),
        ("6000", "6000", 6_000),
    ],
)
def test_an_effort_has_one_spelling(written: str | int, effort: str, tokens: int) -> None:
    assert effort_named(written) == effort
    assert tokens_of(effort) == tokens


@pytest.mark.parametrize("written", ["", "huge", "500", -1, "4k", "²", "1e4", "9" * 30])
def test_what_is_no_effort_is_refused_with_what_is(written: str | int) -> None:
    with pytest.raises(InvalidRequest, match="no thinking effort") as raised:
        effort_named(written)
    assert "off, low, medium, high or a number of tokens from 1024" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("model", "effort", "max_output", "expected"),
    [
        ("claude-haiku-4-5", "off", 16_000, RequestedThinking()),
        ("claude-haiku-4-5", "6000", 16_000, RequestedThinking(budget=6_000)),
        (
            "claude-haiku-4-5",
            "high",
            16_000,
            RequestedThinking(budget=12_000, note="16384 tokens do not fit its output: 12000 are asked for"),
        ),
        (
            "claude-haiku-4-5",
            "low",
            1_000,
            RequestedThinking(note="the output of claude-haiku-4-5 is set too small for the least budget of 1024"),
        ),
        ("claude-opus-4-8", "off", 16_000, RequestedThinking(without=True)),
        ("claude-opus-4-8", "high", 16_000, RequestedThinking(level="high")),
        (
            "claude-opus-4-8",
            "6000",
            16_000,
            RequestedThinking(level="medium", note="claude-opus-4-8 takes levels and no numbers: 6000 is medium"),
        ),
        (
            "claude-opus-4-8",
            "high",
            4_000,
            RequestedThinking(
                level="medium", note="high does not fit the output of claude-opus-4-8: medium is asked for"
            ),
        ),
        (
            "claude-opus-5-5",
            "off",
            16_000,
            RequestedThinking(note="claude-opus-5-5 can't disable thinking: it decides itself how much to think"),
        ),
        ("gpt-5.6", "medium", 16_000, RequestedThinking(level="medium")),
        ("somebody-elses", "off", 16_000, RequestedThinking()),
        ("somebody-elses", "low", 16_000, RequestedThinking(note="somebody-elses takes no thinking effort")),
    ],
)
def test_what_a_model_is_asked(model: str, effort: str, max_output: int, expected: RequestedThinking) -> None:
    facts = TABLE.facts(model, "openai" if model.startswith(("gpt", "somebody")) else "anthropic")
    assert asked_thinking(facts, effort, max_output) == expected
