"""The system prompt that ships: a static text in coherent sections."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from inline_snapshot import snapshot

from lamella.context.documents import LISTED
from lamella.context.layouts import LAYOUTS
from lamella.context.segments import REMINDER_OPEN
from lamella.context.system_prompt import STATIC_SECTIONS, StaticSection, static_text
from lamella.core.agents import Agent, Project
from lamella.core.errors import ConfigurationError
from lamella.core.prompt import Kind, ToolSpec

from .windows import made, request, text_of, the, turn
from .wires import WIRES, blocks_of

PROMPT = static_text(STATIC_SECTIONS)


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
        "87ce9aa7e6788c798ece3f3a4edc4b75129c2c92fd8a7854d10d92d4fe562c09"
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


def test_a_static_section_with_a_placeholder_is_refused() -> None:
    for text, found in (
        ("Today is {{date}}.", "{{date}}"),
        ("You are ${name}.", "${name}"),
        ("You are {user_name}.", "{user_name}"),
        ("It is %(now)s.", "%(now)s"),
        ("Tools: <% tools %>.", "<% tools %>"),
    ):
        with pytest.raises(ConfigurationError) as raised:
            StaticSection("greeting", text)
        assert raised.value.message == f"The static section “greeting” has a placeholder, {found}."
        assert raised.value.hint == "Write its text out, or register it as a section of the step."
        assert raised.value.param == "greeting"


def test_a_static_section_may_show_json() -> None:
    assert StaticSection("format", 'Answer as {"answer": 1}.').text == 'Answer as {"answer": 1}.'


VARIED = (
    {"turn": turn(1, text="Wer?")},
    {"turn": replace(turn(1), user=replace(turn(1).user, sent_at=datetime(2031, 1, 1, tzinfo=UTC), timezone="UTC"))},
    {"tools": ()},
    {"tools": (ToolSpec("now", "Tells the time.", "{}"),)},
    {"searched": True},
    {"agent": Agent("a", "Pirate", "Talk like a pirate.")},
    {"project": Project("p", "Ship", "Sail.")},
    {"reminder": "Cite."},
    {"last_step": True},
)
"""What differs from request to request, from user to user, and from conversation to conversation."""


@pytest.mark.parametrize("layout", ["lamella", "lis", "wegent"])
@pytest.mark.parametrize("changes", VARIED, ids=lambda changes: next(iter(changes)))
def test_nothing_of_a_request_enters_the_system_prompt(layout: str, changes: dict[str, Any]) -> None:
    plain = request(turn(1), system=PROMPT)
    varied = replace(plain, **changes)
    for wire in WIRES:
        before, after = (
            [block.data for block in blocks_of(made(asked, layout), wire) if block.segment == "system"]
            for asked in (plain, varied)
        )
        assert before == after != []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_onyx_writes_sections_for_the_step(layout: str) -> None:
    kinds = [segment.kind for segment in made(request(turn(1)), layout).prompt.segments]
    assert (Kind.SECTIONS in kinds) == (layout == "onyx")


def test_the_sections_of_a_step() -> None:
    tools = (ToolSpec("now", "Tells the time. In UTC.", "{}"), ToolSpec("ask", "", "{}"))
    asked = request(turn(1), tools=tools)
    assert text_of(the(made(asked, "onyx"), "sections")) == snapshot("""\
# Date
The current date is Sunday 2026-03-01, the time 09:00.

# Tools of this step
- ask
- now: Tells the time.
If you used tools and find that you need more information, or need to call others, you are encouraged to.\
""")
    bare = text_of(the(made(replace(asked, tools=(), searched=True), "onyx"), "sections"))
    assert bare == snapshot("""\
# Date
The current date is Sunday 2026-03-01, the time 09:00.

# Citations
Put the number of each document that a statement rests on in square brackets behind the statement, such as [1].\
""")
