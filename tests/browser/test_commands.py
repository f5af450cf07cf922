"""Commands on the page: completed while they are typed, answered in the conversation, and what they leave there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from .servers import Server, Watched, running
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demonstration, with little kept of what is recent."""
    environment = {"LAMELLA_KEEP_RECENT_TOKENS": "10"}
    with running(Server(tmp_path_factory.mktemp("forgetful"), environment)) as server:
        yield server


def test_commands_are_completed_answered_and_kept(page: Page, forgetful: Server, watched: Watched) -> None:
    page.goto(forgetful.url)
    ask(page, "Hello there. " + "Some words of no weight. " * 60)
    expect(answers(page)).to_have_count(1)
    ask(page, "And how does this work?")
    expect(answers(page)).to_have_count(2)

    composer = part(page, "composer")
    composer.press_sequentially("/co")
    offered = part(page, "commands").get_by_role("option")
    expect(offered).to_have_count(2)
    page.keyboard.press("ArrowDown")
    expect(offered.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(part(page, "commands")).to_have_count(0)
    composer.fill("/st")
    page.keyboard.press("Enter")
    expect(composer).to_have_value("/status")
    page.keyboard.press("Enter")
    expect(part(page, "told")).to_contain_text("4 messages in the window")
    expect(composer).to_have_value("")

    composer.fill("/com")
    page.keyboard.press("Tab")
    expect(composer).to_have_value("/compact ")
    page.keyboard.press("Enter")
    expect(part(page, "told").last).to_contain_text("Compacted (")
    part(page, "told-summary").click()
    expect(part(page, "sessions-panel")).to_be_visible()
    expect(part(page, "session-item-summary")).to_have_count(1)
    page.keyboard.press("Escape")
    divider = part(page, "session-divider")
    expect(divider).to_contain_text(re.compile(r"Settled \S+ → \S+"))
    expect(part(page, "session-summary")).to_be_hidden()
    divider.locator("summary").click()
    expect(part(page, "session-summary")).not_to_be_empty()
    expect(part(page, "session-summary")).to_be_visible()

    page.reload()
    expect(part(page, "told")).to_have_count(3)
    expect(part(page, "session-divider")).to_have_count(1)
    assert watched.complaints == []
