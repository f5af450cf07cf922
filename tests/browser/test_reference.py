"""The reference of the API: a page of its own, whole without a script, whose links lead from calls to objects."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from .servers import Server, Watched

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_the_reference_leads_from_a_call_to_what_it_gives(demo: Server, page: Page, watched: Watched) -> None:
    page.goto(f"{demo.url}/docs")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Lamella")
    page.get_by_role("navigation").get_by_role("link", name="conversations").click()
    call = page.locator("details", has_text="GET /api/v1/conversations/{conversation_id}").first
    call.locator("summary").click()
    call.get_by_role("link", name="Conversation", exact=True).click()
    expect(page.locator("#object-Conversation")).to_be_in_viewport()
    expect(page.locator("#object-Conversation")).to_contain_text("running_turn")
    assert watched.asked == [f"{demo.url}/docs"]
    assert watched.complaints == []


def test_every_link_of_the_reference_leads_somewhere(demo: Server, page: Page) -> None:
    page.goto(f"{demo.url}/docs")
    links = page.locator("a[href^='#']").evaluate_all("links => links.map(link => link.getAttribute('href').slice(1))")
    ids = set(page.locator("[id]").evaluate_all("found => found.map(one => one.id)"))
    assert len(links) > 300
    assert set(links) <= ids
