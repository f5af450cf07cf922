"""The conversations of other programs on the page: their list, live; one of them with the break of its cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anthropic
import pytest
from anthropic.types import MessageParam
from playwright.sync_api import Page, expect

from .servers import Model, Server, Watched, running
from .steps import part

pytestmark = [pytest.mark.browser, pytest.mark.long]

PROSE = "The keeper lights the lamp at dusk and notes the weather, the ships and the oil that is left. "
SYSTEM = f"You keep the log of the lighthouse. Signed by Ann. {PROSE * 80}"
SESSION = {"x-claude-code-session-id": "5b0c9d0e-session", "user-agent": "claude-cli/9.9 (test)"}


@pytest.fixture
def house(simulator: Model, tmp_path: Path) -> Iterator[Server]:
    """A server of its own for each test: the list begins empty."""
    with running(Server(tmp_path / "data", {"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": simulator.url})) as server:
        yield server


@pytest.fixture
def sdk(house: Server) -> Iterator[anthropic.Anthropic]:
    """The vendor's library, pointed at the server as the page says."""
    http = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(base_url=house.url, api_key="any", max_retries=0, http_client=http) as made:
        yield made


def talk(sdk: anthropic.Anthropic, history: list[MessageParam], text: str, system: str = SYSTEM) -> None:
    """The next turn of a client that sends everything again each time."""
    history.append({"role": "user", "content": text})
    said = sdk.messages.create(
        model="claude-opus-5-5", max_tokens=200, system=system, messages=history, extra_headers=SESSION
    )
    history.append({"role": "assistant", "content": said.content})


def broken(sdk: anthropic.Anthropic) -> None:
    """Three turns; before the third the client changes one word of its system prompt.

    The prompt is another each time, because the simulated provider and its cache outlive a test.
    """
    history: list[MessageParam] = []
    system = f"House {uuid4().hex}. {SYSTEM}"
    talk(sdk, history, "Hello there", system)
    talk(sdk, history, "And the ships?", system)
    talk(sdk, history, "Thank you", system.replace("Signed by Ann.", "Signed by Bob."))


def title(sdk: anthropic.Anthropic) -> None:
    """What such a client sends beside its conversation, under the same session."""
    asked: list[MessageParam] = [{"role": "user", "content": "<session>Hello there</session> Write a title."}]
    sdk.messages.create(
        model="claude-opus-5-5", max_tokens=50, system="Write titles.", messages=asked, extra_headers=SESSION
    )


def test_the_page_says_how_to_point_a_client_here_and_shows_its_requests_as_they_come(
    page: Page, house: Server, sdk: anthropic.Anthropic, watched: Watched
) -> None:
    page.goto(house.url)
    part(page, "clients-open").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{house.url}/clients")
    expect(part(page, "clients-open")).to_have_attribute("aria-current", "page")
    expect(part(page, "composer")).to_have_count(0)
    empty = part(page, "clients-empty")
    expect(empty).to_contain_text(f"ANTHROPIC_BASE_URL={house.url}")
    expect(empty).to_contain_text(f"OPENAI_BASE_URL={house.url}/v1")
    expect(empty.get_by_label("Copy OPENAI_BASE_URL")).to_be_visible()

    history: list[MessageParam] = []
    talk(sdk, history, "Hello there")
    line = part(page, "line")
    expect(line).to_contain_text("Hello there")
    expect(part(page, "clients-empty")).to_have_count(0)
    talk(sdk, history, "And the ships?")
    expect(line.locator("dd").first).to_have_text("2")
    title(sdk)
    expect(line).to_have_count(2)
    group = part(page, "line-group")
    expect(group).to_have_count(1)
    expect(group).to_contain_text("Claude Code 9.9")
    expect(group).to_contain_text("5b0c9d0e-session")
    expect(line.nth(0)).to_have_attribute("data-side", "false")
    expect(line.nth(1)).to_have_attribute("data-side", "true")
    expect(line.nth(1)).to_contain_text("title")
    assert watched.complaints == []


def test_a_break_is_shown_with_the_changed_text_and_opens_the_inspector(
    page: Page, house: Server, sdk: anthropic.Anthropic, watched: Watched
) -> None:
    broken(sdk)
    page.goto(f"{house.url}/clients")
    line = part(page, "line")
    expect(line).to_contain_text(re.compile(r"Breaks\s*1 \(\$0\.\d+\)"))
    line.get_by_role("link", name="Hello there").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Hello there")
    expect(part(page, "composer")).to_have_count(0)
    turn = part(page, "line-turn")
    expect(turn).to_have_count(3)
    expect(part(turn.nth(0), "line-text")).to_have_text("Thank you")
    expect(part(turn.nth(2), "line-text")).to_have_text("Hello there")
    expect(part(turn.nth(2), "line-answer").locator("p").first).not_to_be_empty()

    request = page.locator("[data-testid=line-request][data-broke=true]")
    expect(request).to_have_count(1)
    expect(part(request, "line-why")).to_contain_text("cached tokens were not read")
    texts = part(request, "difference").locator("dd")
    expect(texts.nth(0)).to_contain_text("Signed by Ann.")
    expect(texts.nth(1)).to_contain_text("Signed by Bob.")
    assert [mark.inner_text() for mark in texts.locator("mark").all()] == ["Ann", "Bob"]

    inspect = part(turn.nth(1), "line-inspect")
    inspect.click()
    drawer = part(page, "context-drawer")
    expect(part(drawer, "choose-turn")).to_have_text("2. And the ships?")
    expect(part(drawer, "difference")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(inspect).to_be_focused()
    part(request, "line-inspect").click()
    expect(part(drawer, "why")).to_contain_text("cached tokens were not read")
    expect(part(drawer, "difference")).to_contain_text("Signed by Bob.")
    expect(part(drawer, "segment").first).to_be_visible()
    expect(part(drawer, "raw-link")).to_have_attribute("href", re.compile("/api/v1/requests/req_.+/raw"))
    assert watched.complaints == []


def test_a_line_is_deleted_and_its_address_then_leads_back(page: Page, house: Server, sdk: anthropic.Anthropic) -> None:
    talk(sdk, [], "Hello there")
    page.goto(f"{house.url}/clients")
    part(page, "line").get_by_role("link").click()
    address = page.url
    part(page, "line-delete").click()
    expect(part(page, "confirm")).to_contain_text("“Hello there”")
    part(page, "confirm-action").click()
    expect(page).to_have_url(f"{house.url}/clients")
    expect(part(page, "clients-empty")).to_be_visible()
    page.goto(address)
    expect(part(page, "error")).to_be_visible()
    page.get_by_role("button", name="Show all clients").click()
    expect(part(page, "clients-empty")).to_be_visible()


def wider(page: Page) -> list[str]:
    """What is wider than its box, and is not cut there on purpose."""
    script = """() => [...document.querySelectorAll('main, main *')].filter((one) => {
        const { overflowX, display } = getComputedStyle(one)
        const hidden = overflowX === 'hidden' || display === 'inline' || one.closest('.visually-hidden')
        return !hidden && one.scrollWidth > one.clientWidth + 1
    }).map((one) => one.outerHTML.slice(0, 120))"""
    found: list[str] = page.evaluate(script)
    return found


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_list_and_line_fit_the_screen(page: Page, house: Server, sdk: anthropic.Anthropic, width: int) -> None:
    broken(sdk)
    title(sdk)
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(f"{house.url}/clients")
    expect(part(page, "line")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wider(page) == []
    part(page, "line").get_by_role("link", name="Hello there").click()
    part(page, "line-request").first.scroll_into_view_if_needed()
    expect(part(page, "difference")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wider(page) == []
