"""What refusals teach: figures of real messages, and what is believed after them."""

from __future__ import annotations

import pytest

from lamella.agent.calibration import RefusedWindow, lesson
from lamella.core.errors import ProviderContextOverflow
from lamella.llm.failures import figures_of, of_status
from lamella.llm.scripted import FACTS


@pytest.mark.parametrize(
    ("said", "counted", "limit"),
    [
        ("prompt is too long: 210342 tokens > 200000 maximum", 210342, 200000),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input", 188240, 178667),
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10235 tokens. "
            "Please reduce the length of the messages.",
            10235,
            8192,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the "
            "messages, 500 in the completion). Please reduce the length of the messages or completion.",
            4500,
            3596,
        ),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 5000, 4096),
        ("request (5,000 tokens) exceeds the available context size (4,096 tokens), try increasing it", 5000, 4096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1200000, 1048576),
        ("Your input exceeds the context window of this model.", None, None),
        ("Input is too long for requested model claude-3-7-sonnet-20250219-v1:0.", None, None),
        ("the request exceeds the available context size (8192 tokens)", None, 8192),
    ],
)
def test_the_figures_of_a_refusal_are_read(said: str, counted: int | None, limit: int | None) -> None:
    assert figures_of(said) == (counted, limit)
    refused = of_status("It", 400, said, "KEY", None)
    assert isinstance(refused, ProviderContextOverflow)
    assert (refused.counted, refused.limit) == (counted, limit)


@pytest.mark.parametrize(
    ("counted", "limit", "factor", "learned"),
    [
        (12_000, 10_000, 1.5, None),  # it counts more than was thought: that is all there is to know
        (9_000, 6_000, 1.125, 6_000),  # it takes less than the budget
        (None, 6_000, None, 6_000),
        (None, None, None, 6_000),  # nobody knows: less is tried
        (9_000, None, 1.125, 6_750),
        (40_000, 10_000, None, 1_900),  # it counts in other tokens: what is left is in proportion
        (None, 200_000, None, 6_000),  # a limit above what was sent explains nothing
    ],
)
def test_what_is_believed_after_a_refusal(
    counted: int | None, limit: int | None, factor: float | None, learned: int | None
) -> None:
    refusal = ProviderContextOverflow("too long")
    refusal.counted, refusal.limit = counted, limit
    found = lesson(refusal, RefusedWindow(8_000, 8_000, 10_000), FACTS)
    assert (found.factor, found.limit) == (factor, learned)


def test_less_is_tried_of_a_line_that_was_never_billed() -> None:
    found = lesson(ProviderContextOverflow("too long"), RefusedWindow(8_000, 8_000, 10_000, billed=False), FACTS)
    assert found.limit == 3_200
