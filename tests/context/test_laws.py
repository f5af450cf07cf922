"""The laws of the context core over generated conversations, in every layout and on both wires (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .growing import Grown, grown
from .law_7 import law_7
from .laws import law_1, law_2, law_3, law_4, law_5, law_6
from .plans import BINDING, SONNET, in_lamella, laws

LAWS = (law_1, law_2, law_3, law_4, law_5, law_6, law_7)


@pytest.mark.parametrize("law", LAWS)
@laws
@given(grown())
def test_every_layout_keeps(law: Callable[[Grown], None], conversation: Grown) -> None:
    law(conversation)


@pytest.mark.parametrize("law", [law_1, law_4, law_5])
@laws
@given(grown(st.sampled_from((BINDING, SONNET)), in_lamella))
def test_models_that_bind_their_thinking_keep(law: Callable[[Grown], None], conversation: Grown) -> None:
    """Where a changed prefix is refused and not only paid for."""
    law(conversation)
