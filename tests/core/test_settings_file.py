"""`lamella.toml`: the settings of a data folder, after the command line and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.core.errors import ConfigurationError
from lamella.core.tokens import Threshold
from lamella.settings import Settings, read_settings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAMELLA_CONFIG", "LAMELLA_STEP_LIMIT", "LAMELLA_MODEL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def written(folder: Path, text: str) -> Settings:
    (folder / "lamella.toml").write_text(text)
    return read_settings(data=folder)


def test_a_file_sets_what_nothing_else_sets(tmp_path: Path) -> None:
    text = """
        context_budget = "120k"
        titles = false
        thinking_effort = 4096
        resume_token_budget = "50%"
        anthropic_api_key = "from-the-file"

        [compaction]
        model = "claude-haiku-5-5"
        threshold = 90_000

        [tool.prune]
        when = "full"
    """
    found = written(tmp_path, text)
    assert (found.context_budget, found.titles, found.compaction_model) == (120_000, False, "claude-haiku-5-5")
    assert (found.tool_prune_when, found.thinking_effort) == ("full", "medium")
    assert (found.compaction_threshold, found.resume_token_budget) == (Threshold(tokens=90_000), Threshold(share=0.5))
    assert found.anthropic_api_key is not None
    assert found.anthropic_api_key.get_secret_value() == "from-the-file"
    assert found.step_limit == read_settings(data=tmp_path / "elsewhere").step_limit


def test_the_environment_comes_before_the_file_and_the_command_line_before_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMELLA_STEP_LIMIT", "7")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    monkeypatch.setenv("LAMELLA_MODEL", "")  # an empty variable sets nothing
    text = 'step_limit = 3\nmodel = "a"\nqueue_limit = 9\nanthropic_api_key = "from-the-file"'
    found = written(tmp_path, text)
    assert (found.step_limit, found.model, found.queue_limit) == (7, "a", 9)
    assert found.anthropic_api_key is not None
    assert found.anthropic_api_key.get_secret_value() == "from-the-environment"
    assert read_settings(data=tmp_path, step_limit=5, model="b").model_dump(include={"step_limit", "model"}) == {
        "step_limit": 5,
        "model": "b",
    }


def test_another_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.toml"
    other.write_text("step_limit = 4")
    monkeypatch.setenv("LAMELLA_CONFIG", str(other))
    assert written(tmp_path, "step_limit = 3").step_limit == 4
    monkeypatch.setenv("LAMELLA_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigurationError, match=r"missing.toml can't be read: No such file"):
        read_settings(data=tmp_path)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("step_limt = 3", "“step_limt” in .*lamella.toml is no setting", "Did you mean “step_limit”?"),
        ("[compaction]\nmodle = 'a'", "“compaction_modle” in", "Did you mean “compaction_model”?"),
        ("LAMELLA_STEP_LIMIT = 3", "“LAMELLA_STEP_LIMIT” in", "Did you mean “step_limit”?"),
        ("weather = 'wet'", "“weather” in", "docs/reference/settings.md lists the settings."),
        ("data = '/tmp'", "“data” can't be set in", "Set LAMELLA_DATA, or give it on the command line."),
        (
            "step_limit = 0",
            "“step_limit” in .* can't be used: Input should be greater than or equal to 1",
            "Change it.",
        ),
        ("thinking_effort = 'much'", "“thinking_effort” in .* can't be used: it is none of", "Change it."),
        ("step_limit 3", "The settings file .* can't be read: Expected '='", "Correct it, or set LAMELLA_CONFIG."),
    ],
)
def test_what_can_not_be_used_is_told_with_its_place(text: str, message: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        written(tmp_path, text)
    assert refused.value.hint == hint


def test_a_wrong_variable_is_still_told_by_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_STEP_LIMIT", "0")
    with pytest.raises(ConfigurationError, match="LAMELLA_STEP_LIMIT can't be used"):
        written(tmp_path, "queue_limit = 9")
