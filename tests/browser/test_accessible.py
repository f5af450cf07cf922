"""Every route of the page, light and dark, from a phone to a wide screen: axe finds nothing, and nothing is cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from .servers import Server, Watched
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def routes(demo: Server) -> dict[str, str]:
    """Paths and what has to be there before a route is looked at."""
    with httpx2.Client(base_url=f"{demo.url}/api/v1", trust_env=False, timeout=60) as http:

        def made(path: str, **body: object) -> str:
            answer = http.post(path, json=body, headers={"accept": "application/json"})
            answer.raise_for_status()
            return str(answer.json()["id"])

        agent = made("/agents", name="Reviewer", prompt="Name every weakness.")
        project = made("/projects", name="Mill", instructions="It stands in Augsburg.")
        base = made("/knowledge-bases", name="Airships")
        chat = made("/conversations", title="Of the pier")
        text = "# Steps\n\n- [x] one\n- [ ] two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code`"
        made(f"/conversations/{chat}/turns", text=text)
    return {
        "/": "composer",
        f"/c/{chat}": "answer-context",
        "/projects": "project-item",
        f"/projects/{project}": "project-form",
        "/knowledge": "base-item",
        f"/knowledge/{base}": "documents",
        "/agents": "agent-item",
        f"/agents/{agent}": "agent-form",
        "/clients": "clients-empty",
        "/settings": "preferences",
        "/admin": "system-form",
        "/nowhere": "missing",
    }


def complaints(page: Page) -> list[str]:
    """What axe finds on the page as it is now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.evaluate("async () => (await axe.run()).violations")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: run `python webbuild.py`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_axe_finds_nothing(
    page: Page, demo: Server, routes: dict[str, str], watched: Watched, scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 860})
    found = {}
    for path, there in routes.items():
        page.goto(demo.url + path)
        expect(part(page, there).first).to_be_visible()
        found[path] = complaints(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert {path: ones for path, ones in found.items() if ones} == {}
    assert [one for one in watched.complaints if "404" not in one] == []


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: run `python webbuild.py`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_what_opens(page: Page, demo: Server, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    found = {}

    def look(name: str) -> None:
        found[name] = complaints(page)

    part(page, "choose-context").click()
    expect(part(page, "context-popover")).to_be_visible()
    look("context")
    part(page, "choose-layout").click()
    expect(page.get_by_role("option").first).to_be_visible()
    look("layout")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(part(page, "search-entry").first).to_be_visible()
    look("search")
    page.keyboard.press("Escape")
    expect(part(page, "search")).to_have_count(0)
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(part(page, "shortcuts")).to_be_visible()
    look("shortcuts")
    page.keyboard.press("Escape")
    expect(part(page, "shortcuts")).to_have_count(0)
    part(page, "conversation-item").first.hover()
    part(page, "conversation-menu").first.click()
    expect(part(page, "conversation-delete")).to_be_visible()
    look("menu")
    part(page, "conversation-delete").click()
    expect(part(page, "confirm")).to_be_visible()
    look("confirm")
    page.keyboard.press("Escape")
    expect(part(page, "confirm")).to_have_count(0)
    for panel, opens in (("context-drawer", "context-bar"), ("sessions", "sessions-open"), ("preview", "preview-open")):
        part(page, opens).click()
        expect(page.locator("[data-side-panel]")).to_be_visible()
        look(panel)
        page.keyboard.press("Escape")
    assert {name: ones for name, ones in found.items() if ones} == {}
