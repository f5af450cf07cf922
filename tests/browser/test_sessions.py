"""Sessions, thinking effort and the way to the next compaction, as the page shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, choose, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

WORDS = "Some words of no weight. " * 300


@pytest.fixture(scope="module")
def settling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demonstration, which compacts by itself after nearly every answer."""
    environment = {"LAMELLA_KEEP_RECENT_TOKENS": "10", "LAMELLA_COMPACTION_THRESHOLD": "3000"}
    with running(Server(tmp_path_factory.mktemp("settling"), environment)) as server:
        yield server


def item(page: Page, number: int) -> str:
    return f"[data-testid=session-item][data-number='{number}']"


def test_a_compaction_in_the_background_is_heard_of_and_its_session_can_be_gone_back_to(
    page: Page, settling: Server, watched: Watched
) -> None:
    page.goto(settling.url)
    ask(page, f"Hello there. {WORDS}")
    expect(answers(page)).to_have_count(1)
    ask(page, "And how does this work?")
    expect(answers(page)).to_have_count(2)
    divider = part(page, "session-divider").first
    expect(divider).to_contain_text(re.compile(r"Settled \S+ → \S+"))
    expect(part(page, "told").last).to_contain_text("Compacted (")

    divider.locator("summary").focus()
    page.keyboard.press("Enter")
    summary = part(page, "session-summary").first
    expect(summary).to_be_visible()
    expect(summary.locator("h1, h2, h3, p, li").first).to_be_visible()
    expect(part(summary, "session-kept")).to_contain_text("And how does this work?")

    part(page, "sessions-open").click()
    panel = part(page, "sessions-panel")
    expect(panel.locator(item(page, 1))).to_contain_text("the first")
    expect(panel.locator(item(page, 2))).to_contain_text("compacted")
    expect(part(panel.locator(item(page, 2)), "session-event")).to_have_count(1)
    part(panel, "sessions-search").fill("weight")
    page.keyboard.press("Enter")
    expect(part(panel, "search-hit").first.locator("mark").first).to_contain_text("weight")
    box = panel.bounding_box()
    assert box is not None
    assert box["x"] > 500, "beside the chat"
    part(panel.locator(item(page, 1)), "session-resume").click()
    part(page, "confirm-action").click()
    expect(panel.locator(item(page, 1))).to_have_attribute("aria-current", "true")
    page.keyboard.press("Escape")
    expect(part(page, "sessions-panel")).to_have_count(0)
    expect(part(page, "sessions-open")).to_be_focused()
    expect(part(page, "told").last).to_contain_text("Session 1 continues in full")
    assert watched.complaints == []


def compacted(page: Page, server: Server, times: int) -> None:
    """A conversation that has settled so often."""
    page.goto(server.url)
    for count in range(times + 1):
        ask(page, f"Question {count}. {WORDS}")
        expect(answers(page)).to_have_count(count + 1)
        expect(part(page, "told").filter(has_text="Compacted (")).to_have_count(count)


def test_the_gauge_shows_what_a_compaction_left(page: Page, settling: Server) -> None:
    compacted(page, settling, 1)
    bar = part(page, "context-bar")
    expect(bar).to_have_attribute("data-estimate", "true")
    _, after = part(page, "session-divider").first.inner_text().split(" → ")
    expect(bar).to_contain_text(f"≈ {after.strip()} /")
    ask(page, "And now?")
    expect(answers(page)).to_have_count(3)


def test_a_compaction_is_undone_at_its_divider(page: Page, settling: Server, watched: Watched) -> None:
    compacted(page, settling, 1)
    divider = part(page, "session-divider").first
    divider.locator("summary").click()
    part(divider, "undo").focus()
    page.keyboard.press("Enter")
    expect(part(page, "confirm")).to_contain_text("in full")
    page.keyboard.press("Escape")
    expect(part(page, "confirm")).to_have_count(0)
    part(divider, "undo").click()
    part(page, "confirm-action").click()
    expect(divider).to_contain_text("undone")
    expect(part(page, "undo")).to_have_count(0)
    part(page, "sessions-open").click()
    expect(page.locator(item(page, 1))).to_have_attribute("aria-current", "true")
    expect(page.locator(item(page, 2))).to_contain_text("the compaction was undone")
    page.reload()
    expect(part(page, "session-divider").first).to_contain_text("undone")
    assert watched.complaints == []


def test_a_compaction_that_something_came_after_is_not_undone_and_why_is_said(page: Page, settling: Server) -> None:
    compacted(page, settling, 1)
    part(page, "sessions-open").click()
    newest = page.locator(item(page, 2))
    part(newest, "undo").click()
    conversation = page.url.rsplit("/", 1)[1]
    httpx2.post(f"{settling.url}/api/v1/conversations/{conversation}/new").raise_for_status()
    part(page, "confirm-action").click()
    error = part(newest, "error")
    expect(error).to_contain_text("newest compaction")
    expect(error).to_contain_text("/resume goes back to an earlier session")
    expect(page.locator(item(page, 3))).to_have_attribute("aria-current", "true")
    expect(part(page, "undo")).to_have_count(0)


def test_a_change_of_the_effort_says_what_it_loses_of_the_cache(
    page: Page, model: Model, tmp_path: Path, watched: Watched
) -> None:
    environment = {
        "ANTHROPIC_API_KEY": "effort",
        "ANTHROPIC_BASE_URL": model.url,
        "LAMELLA_CONTEXT_BUDGET": "100k",
        "LAMELLA_COMPACTION_THRESHOLD": "50k",
        "LAMELLA_COMPACTION_WHEN": "full",
    }
    with running(Server(tmp_path, environment)) as server:
        page.goto(server.url)
        picked = part(page, "choose-effort")
        picked.click()
        expect(page.get_by_role("option")).to_have_text(["as usual", "off", "low", "medium", "high"])
        page.keyboard.press("Escape")
        ask(page, f"Hello there. {WORDS}")
        expect(answers(page)).to_have_count(1)
        expect(part(page, "context-next")).to_contain_text(re.compile(r"4\d(\.\d)?k to compaction"))
        expect(part(page, "context-threshold")).to_have_attribute("style", re.compile("left: 50%"))
        expect(picked).to_have_text("as usual (off)")

        choose(picked, "high")
        warning = part(page, "effort-warning")
        expect(warning).to_contain_text(re.compile(r"About \S+ cached tokens \(the messages\) would be written again"))
        part(page, "effort-keep").click()
        expect(warning).to_have_count(0)
        expect(picked).to_have_attribute("data-value", "")
        choose(picked, "high")
        part(page, "effort-change").focus()
        page.keyboard.press("Enter")
        expect(picked).to_have_text("high")
        page.reload()
        expect(part(page, "choose-effort")).to_have_text("high")
        assert watched.complaints == []


def test_on_a_narrow_screen_nothing_is_cut_off(page: Page, settling: Server) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(settling.url)
    ask(page, f"Hello there. {WORDS}")
    expect(answers(page)).to_have_count(1)
    part(page, "sessions-open").click()
    expect(part(page, "sessions-panel")).to_be_visible()
    page.keyboard.press("Escape")
    expect(part(page, "choose-effort")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_a_compaction_that_saves_much_is_offered_and_made_by_a_click(
    page: Page, server: Server, watched: Watched
) -> None:
    """Long questions about nothing, at a size at which nothing is compacted automatically."""
    made = httpx2.post(f"{server.url}/api/v1/conversations", json={}).json()["id"]
    for count in range(30):
        question = {"text": f"Question {count}. " + WORDS, "timezone": "UTC"}
        httpx2.post(
            f"{server.url}/api/v1/conversations/{made}/turns",
            json=question,
            headers={"Accept": "application/json"},
            timeout=60,
        ).raise_for_status()
    page.goto(f"{server.url}/c/{made}")
    offer = part(page, "context-offer")
    expect(offer).to_have_text(re.compile(r"Compact now: saves about \$\d+\.\d\d \(\d\d %\) over 10 messages"))
    offer.click()
    expect(part(page, "told").last).to_contain_text("Compacted (")
    expect(offer).to_have_count(0)
    expect(part(page, "context-bar")).to_have_attribute("data-estimate", "true")
    assert watched.complaints == []
