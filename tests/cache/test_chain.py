"""Two prefixes have one key exactly when a provider's cache takes them for equal."""

from __future__ import annotations

from lamella.cache.window import chain
from lamella.core.prompt import Level

from .windows import block, chained, history, segment


def test_keys_are_equal_up_to_the_first_change() -> None:
    window = history(6)
    other = [*window[:3], segment("changed"), *window[4:]]
    mine, theirs = chained(window).keys, chained(other).keys
    assert [a == b for a, b in zip(mine, theirs, strict=True)] == [True, True, True, False, False, False]


def test_a_longer_window_keeps_the_keys_of_the_shorter() -> None:
    assert chained(history(9)).keys[:4] == chained(history(4)).keys


def test_nothing_survives_another_root() -> None:
    window = history(3)
    assert not set(chained(window).keys) & set(chained(window, root="account/other").keys)


def test_a_salt_changes_its_level_and_all_behind_it() -> None:
    levels: tuple[Level, ...] = ("tools", "system", "messages")
    blocks = tuple(block(segment(level), level=level) for level in levels)
    plain = chain(blocks, "r", {}).keys
    for kept, level in enumerate(levels):
        salted = chain(blocks, "r", {level: "x"}).keys
        assert [a == b for a, b in zip(plain, salted, strict=True)] == [index < kept for index in range(3)]


def test_an_earlier_chain_only_saves_work() -> None:
    blocks = tuple(block(each) for each in history(8))
    before = chain(blocks[:5], "r", {"messages": "s"})
    for salts in ({"messages": "s"}, {"messages": "t"}, {}):
        assert chain(blocks, "r", salts, before) == chain(blocks, "r", salts)  # type: ignore[arg-type]
    assert chain(blocks[:3], "r", {"messages": "s"}, before) == chain(blocks[:3], "r", {"messages": "s"})
    assert chain(blocks, "other", {"messages": "s"}, before) == chain(blocks, "other", {"messages": "s"})
    assert chain((), "r", {}).keys == ()


def test_borders_of_blocks_count() -> None:
    """Two blocks are not the one block of their joined text."""
    joined, parts = [segment("ab")], [segment("a"), segment("b")]
    assert chained(joined).keys[-1] != chained(parts).keys[-1]
