"""The model table against the vendors' rules as docs/reference/providers.md gives them, row by row."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path

import pytest

from lamella.core.errors import ConfigurationError
from lamella.core.models import Markers, ModelFacts, Thinking
from lamella.llm.model_table import ModelTable

from .provider import TABLE

FABLE, OPUS, SONNET, HAIKU = "claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"
PRICES = {
    FABLE: (10, 50, 0.25, 12.5, 20, 512),
    OPUS: (4, 20, 0.20, 5, 8, 512),
    SONNET: (2, 10, 0.10, 2.5, 4, 512),
    HAIKU: (0.10, 0.50, 0.01, 0.125, 0.20, 512),
    "claude-opus-5": (5, 25, 0.50, 6.25, 10, 512),
    "claude-opus-4-8": (5, 25, 0.50, 6.25, 10, 1_024),
    "claude-opus-4-7": (5, 25, 0.50, 6.25, 10, 2_048),
    "claude-opus-4-6": (5, 25, 0.50, 6.25, 10, 4_096),
    "claude-sonnet-5": (2, 10, 0.20, 2.5, 4, 1_024),
    "claude-sonnet-4-6": (3, 15, 0.30, 3.75, 6, 1_024),
    "claude-haiku-4-5": (1, 5, 0.10, 1.25, 2, 4_096),
    "gpt-6.1-sol": (2, 10, 0.10, 2.5, 5, 1_024),
    "gpt-6.1-terra": (1, 5, 0.05, 1.25, 2.5, 1_024),
    "gpt-6-luna": (0.10, 0.50, 0.01, 0.125, 0.25, 1_024),
    "gpt-6-astra": (10, 50, 1, 12.5, 25, 1_024),
    "gpt-5.6": (4, 20, 0.40, 5, 10, 1_024),
    "gpt-5.5": (5, 30, 0.50, 5, 5, 2_048),
    "gpt-5.4": (2.5, 15, 0.25, 2.5, 2.5, 1_024),
}
"""Dollars for input, output, read, short write, long write; then the least prefix that is cached."""
BINDING = {FABLE, OPUS, SONNET, HAIKU}
WITH_SYSTEM_MESSAGES = BINDING | {"claude-opus-5", "claude-opus-4-8"}
NO_FORCED_TOOLS = {OPUS, SONNET}


def facts_of(name: str) -> ModelFacts:
    facts = TABLE.facts(name, "openai" if name.startswith("gpt") else "anthropic")
    assert facts.known
    return facts


def test_every_row_is_checked_here() -> None:
    assert set(TABLE.names()) == {*PRICES, "lamella-demo"}


@pytest.mark.parametrize("name", PRICES)
def test_prices_and_minimum(name: str) -> None:
    facts = facts_of(name)
    price = facts.price
    rates = (
        price.input,
        price.output,
        *(round(price.input * m, 6) for m in (price.read, price.write_5m, price.write_1h)),
    )
    assert (*rates, facts.min_cacheable) == PRICES[name]


@pytest.mark.parametrize("name", PRICES)
def test_windows_and_tiers(name: str) -> None:
    facts = facts_of(name)
    small = name == "claude-haiku-4-5"
    assert facts.max_output == (64_000 if small else 128_000)
    if facts.provider == "openai":
        assert facts.window == 922_000 + 128_000
        assert (facts.price.tier_above, facts.price.tier_factor) == (272_000, 2)
        assert facts.markers is (Markers.NONE if name in ("gpt-5.5", "gpt-5.4") else Markers.OPENAI)
    else:
        assert facts.window == (200_000 if small else 1_000_000)
        assert (facts.price.tier_above, facts.price.tier_factor) == ((100_000, 5) if name == HAIKU else (None, 1))
        assert facts.markers is Markers.ANTHROPIC


@pytest.mark.parametrize("name", PRICES)
def test_rules_of_thinking_tools_and_system_messages(name: str) -> None:
    facts = facts_of(name)
    claude = facts.provider == "anthropic"
    assert facts.binds_thinking == (name in BINDING)
    assert facts.system_messages == (name in WITH_SYSTEM_MESSAGES or not claude)
    assert not facts.clears_system_messages
    assert facts.forced_tool_choice == (name not in NO_FORCED_TOOLS)
    always = name in (FABLE, OPUS) or not claude
    budget = name == "claude-haiku-4-5"
    assert facts.thinking is (Thinking.ALWAYS if always else Thinking.BUDGET if budget else Thinking.ADAPTIVE)


@pytest.mark.parametrize("name", PRICES)
def test_every_vendor_s_model_sees_pictures(name: str) -> None:
    """Published counts: squares of 28 pixels for Claude, with a smaller limit before Opus 4.7; 1.2 x 32 for GPT."""
    rule = facts_of(name).images
    assert rule is not None
    old = name in ("claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5")
    full_hd = 2_448 if name.startswith("gpt") else 1_560 if old else 2_691
    assert rule.tokens(1_920, 1_080) == full_hd
    assert rule.tokens(1, 1) <= 2
    assert rule.tokens(20_000, 20_000) <= rule.most * rule.tokens_per_patch
    assert rule.tokens(3, 20_000) == rule.tokens(20_000, 3) > 0


def test_a_dated_name_has_the_facts_of_its_model() -> None:
    assert TABLE.facts("claude-opus-5-20260801", "anthropic").price == facts_of("claude-opus-5").price
    assert TABLE.facts("claude-opus-5-5-20261001", "anthropic").binds_thinking


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_an_unknown_name_gets_cautious_facts(vendor: str) -> None:
    facts = TABLE.facts("somebody", vendor)
    assert (facts.known, facts.images, facts.system_messages, facts.binds_thinking) == (False, None, False, False)


def test_what_is_inferred_says_how_and_of_which_rule() -> None:
    table = json.loads(files("lamella.llm").joinpath("models.json").read_bytes())
    assert set(table["inferred"]) <= {field.name for field in fields(ModelFacts)}
    assert all(rule["source"] for rule in table["image_rules"].values())


@pytest.mark.parametrize("name", PRICES)
def test_lives(name: str) -> None:
    facts = facts_of(name)
    lives = {Markers.ANTHROPIC: ("5m", "1h"), Markers.OPENAI: ("30m",)}.get(facts.markers)
    assert facts.lives == (lives or {"gpt-5.5": ("30m",), "gpt-5.4": ("5m",)}[name])
    assert [facts.write_price(life) for life in facts.lives] == [facts.price.write_5m, facts.price.write_1h][
        : len(facts.lives)
    ]


def own(folder: Path, *models: object, **more: object) -> Path:
    path = folder / "models.json"
    path.write_bytes(json.dumps({"models": models, **more}).encode())
    return path


def test_a_file_goes_before_the_shipped_table(tmp_path: Path) -> None:
    dearer = {"name": OPUS, "price": {"read": 0.2}, "min_cacheable": 2_000}
    table = ModelTable.read(own(tmp_path, dearer, version="ours 7"))
    facts, shipped = table.facts(OPUS, "anthropic"), facts_of(OPUS)
    assert facts == replace(shipped, min_cacheable=2_000, price=replace(shipped.price, read=0.2))
    assert table.facts(SONNET, "anthropic") == facts_of(SONNET)
    assert table.version == f"{TABLE.version} with ours 7"


def test_a_file_brings_models_that_nobody_ships(tmp_path: Path) -> None:
    ours = {"name": "ours", "provider": "openai", "window": 64_000, "price": {"input": 0.2}, "markers": "openai"}
    facts = ModelTable.read(own(tmp_path, ours)).facts("ours", "openai")
    assert (facts.known, facts.caution, facts.window, facts.lives) == (True, None, 64_000, ("30m",))
    assert (facts.price.input, facts.price.write_5m) == (0.2, 1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"provider": "openai"}, "row 1 has no name"),
        ({"name": "ours"}, "the model “ours”: its provider is one of anthropic, openai"),
        ({"name": OPUS, "windwo": 1}, "windwo"),
        ({"name": OPUS, "window": "large"}, "Expected `int`"),
        ({"name": OPUS, "window": 1_000}, "leaves nothing of the window"),
        ({"name": OPUS, "price": {"input": -1}}, "no price is below 0"),
        ({"name": OPUS, "lives": ["1h", "5m"]}, "the shortest first"),
        ({"name": OPUS, "images": "huge"}, "images is one of claude"),
    ],
)
def test_a_row_that_can_not_be_says_where_and_why(tmp_path: Path, row: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match=r"models\.json") as raised:
        ModelTable.read(own(tmp_path, row))
    assert said in raised.value.message
    assert raised.value.param == "LAMELLA_MODELS"


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    for path in (tmp_path / "nowhere.json", tmp_path / "list.json"):
        with pytest.raises(ConfigurationError, match=path.name):
            ModelTable.read(path)


def test_an_unknown_name_is_said_to_be_unknown() -> None:
    said = TABLE.facts("somebody", "openai").caution
    assert said is not None
    assert "“somebody”" in said
    assert "LAMELLA_MODELS" in said
    assert facts_of(OPUS).caution is None
