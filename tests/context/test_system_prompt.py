"""The system prompt that ships: a static text in coherent sections (SPEC O1, W1)."""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.resources import files

import pytest
from inline_snapshot import snapshot

from lamella.context.documents import LISTED
from lamella.context.segments import REMINDER_OPEN

PROMPT = files("lamella.context").joinpath("prompts/system.md").read_text("utf-8")


def section(title: str) -> str:
    """The text of one section."""
    found = re.search(rf"^# {title}\n(.*?)(?=^# |\Z)", PROMPT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_its_sections() -> None:
    assert re.findall(r"^#+ .*$", PROMPT, re.MULTILINE) == snapshot(
        ["# How you write", "# What stands in the conversation", "# Documents and citations", "# Tools"]
    )


def test_its_bytes() -> None:
    """A change here changes every new conversation, and the cache entries that they share."""
    assert sha256(PROMPT.encode()).hexdigest() == snapshot(
        "33d7161e2c51c70ee2e2dbb818e676a26cdea300bb1c8b7211585bf3e61403a5"
    )


def test_it_is_static() -> None:
    assert re.search(r"\{|\}|\$|<%|\b20\d\d\b", PROMPT) is None


def test_using_more_tools_is_said_where_tools_are() -> None:
    assert "If what a tool gave you is not enough, call it again" in section("Tools")


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("What stands in the conversation", "ends with the date and time"),
        ("What stands in the conversation", REMINDER_OPEN),
        ("Documents and citations", "[1][3]"),
        ("Tools", "`read_file`"),
    ],
)
def test_it_explains_what_the_window_holds(title: str, said: str) -> None:
    assert said in section(title)


def test_a_listed_document_and_the_prompt_name_the_same_tool() -> None:
    assert "read_file" in LISTED
    assert "`file_id` instead of contents" in section("Tools")
