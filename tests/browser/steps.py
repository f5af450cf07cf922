"""What the tests do on the page again and again."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect


def part(page: Page | Locator, name: str) -> Locator:
    return page.locator(f"[data-testid={name}]")


def answers(page: Page, status: str = "finished") -> Locator:
    return page.locator(f"[data-testid=message-assistant][data-status={status}]")


def ask(page: Page, text: str) -> None:
    part(page, "composer").fill(text)
    page.keyboard.press("Enter")


def attach(page: Page, file: Path) -> None:
    part(page, "attach-input").set_input_files(file)
    expect(page.locator("[data-testid=file-chip][data-state=ready]").last).to_be_visible()


def segment(page: Page | Locator, letters: str) -> Locator:
    """The row of one segment, by its letters: a part of its text may stand in the ids of others."""
    return page.locator(f"[data-testid=segment][data-letters='{letters}']")


def letters(page: Page | Locator) -> list[str]:
    """The letters of the request that is shown, once they are there."""
    expect(part(page, "letters")).not_to_be_empty()
    return part(page, "letters").inner_text().split()


def choose(trigger: Locator, name: str) -> None:
    """Choose the option with this name in a list that opens."""
    trigger.click()
    page = trigger.page
    page.get_by_role("option").filter(has=page.get_by_text(name, exact=True)).click()
    expect(trigger).to_contain_text(name)
    expect(page.get_by_role("option")).to_have_count(0)


def menu(item: Locator, entry: str) -> None:
    """Open the menu of a chat in the list and choose an entry by its test id."""
    item.hover()
    part(item, "conversation-menu").click()
    part(item.page, entry).click()
