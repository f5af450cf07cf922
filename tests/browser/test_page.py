"""The page in a real browser against real servers: ask, stream, cite, stop, reload, break, wide and narrow."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page, expect

from .servers import Model, Server, Watched
from .steps import answers, ask, attach, choose, letters, menu, part

pytestmark = pytest.mark.browser

SLOW = 120.0


def test_a_file_is_asked_about_and_cited(page: Page, demo: Server, manual: Path, watched: Watched) -> None:
    page.goto(demo.url)
    expect(part(page, "notice")).to_contain_text("demonstration, not an AI")
    attach(page, manual)
    expect(part(page, "file-chip")).to_contain_text("3 pages")
    ask(page, "How often is the cooling pump serviced?")
    expect(answers(page)).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/c/conv_\w+$"))
    expect(page).to_have_title("How often is the cooling pump serviced? · Lamella")
    expect(part(page, "composer")).to_have_value("")
    expect(part(page, "message-user")).to_contain_text("manual.pdf")
    expect(answers(page)).to_contain_text("serviced every 400 hours of operation")

    citation = part(page, "citation").first
    expect(citation).to_have_accessible_name(re.compile(r"^Source 1: manual.pdf, page 2$"))
    citation.click()
    expect(part(page, "passage")).to_contain_text("page 2 of 3")
    expect(part(page, "passage-mark")).to_contain_text("serviced every 400 hours of operation")
    expect(part(page, "passage-mark")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(part(page, "passage")).to_have_count(0)
    expect(citation).to_be_focused()

    ask(page, "Where are the spare filters kept?")
    expect(answers(page)).to_have_count(2)
    expect(part(page, "context-bar")).to_contain_text(re.compile(r"\dk / \d+k · .*\d+ % cached"))
    meter = page.get_by_role("meter", name="Context window")
    expect(meter).to_have_attribute("aria-valuetext", re.compile(r"tokens, .*[1-9]\d* % from the cache"))
    assert watched.complaints == []


def test_the_drawer_shows_what_the_model_was_given(page: Page, demo: Server, manual: Path, watched: Watched) -> None:
    page.goto(demo.url)
    attach(page, manual)
    ask(page, "Which hall was built in 1907?")
    expect(answers(page)).to_have_count(1)
    part(page, "context-bar").click()
    drawer = part(page, "context-drawer")
    order = letters(drawer)
    assert order.index("S") < order.index("F") < order.index("U1")
    expect(part(drawer, "segment").filter(has_text="manual.pdf")).to_have_count(1)
    expect(part(drawer, "request-figures")).to_contain_text("Read from the cache")
    part(drawer, "segment").filter(has_text="manual.pdf").get_by_role("button").click()
    expect(part(drawer, "segments")).to_contain_text("Hall 0 was built in 1900")
    raw = page.context.request.get(demo.url + str(part(drawer, "raw-link").get_attribute("href")))
    assert raw.json()["model"]
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    assert watched.complaints == []


def test_an_answer_is_stopped_and_says_so(page: Page, server: Server, model: Model, manual: Path) -> None:
    page.goto(server.url)
    attach(page, manual)
    model.pace(SLOW)
    ask(page, "Summarise the document")
    expect(answers(page, "running")).to_contain_text("Hall")
    expect(part(page, "composer-hint")).to_contain_text("Escape stops it")
    part(page, "stop").click()
    expect(answers(page, "stopped")).to_contain_text("Stopped")
    expect(part(page, "answer-status")).to_have_text("The answer was stopped.")
    expect(part(page, "send")).to_be_visible()
    said = answers(page, "stopped").inner_text()
    page.reload()
    expect(answers(page, "stopped")).to_have_text(re.compile("Stopped"))
    assert answers(page, "stopped").inner_text() == said


def test_escape_stops_and_the_next_message_goes_out(page: Page, server: Server, model: Model, manual: Path) -> None:
    page.goto(server.url)
    attach(page, manual)
    model.pace(SLOW)
    ask(page, "Summarise the document")
    expect(answers(page, "running")).to_contain_text("Hall")
    page.keyboard.press("Escape")
    expect(answers(page, "stopped")).to_have_count(1)
    model.pace(0)
    ask(page, "How often is the cooling pump serviced?")
    expect(answers(page)).to_contain_text("400 hours")


def test_a_reload_in_mid_answer_goes_on(page: Page, server: Server, model: Model, manual: Path) -> None:
    page.goto(server.url)
    attach(page, manual)
    model.pace(SLOW)
    ask(page, "Summarise the document")
    expect(answers(page, "running")).to_contain_text("Hall")
    page.reload()
    expect(answers(page, "running")).to_contain_text("Hall")
    expect(part(page, "stop")).to_be_visible()
    before = len(answers(page, "running").inner_text())
    page.wait_for_timeout(400)
    assert len(part(page, "message-assistant").inner_text()) > before
    model.pace(0)
    expect(answers(page)).to_have_count(1)
    live = part(answers(page), "citation").count()
    assert live > 0
    text = answers(page).inner_text()
    page.reload()
    expect(answers(page)).to_have_count(1)
    assert answers(page).inner_text() == text


def test_a_crash_of_the_server_is_shown_without_a_reload(
    page: Page, simulator: Model, model: Model, manual: Path, tmp_path: Path
) -> None:
    server = Server(tmp_path / "data", {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": simulator.url})
    server.start()
    try:
        page.goto(server.url)
        attach(page, manual)
        model.pace(SLOW)
        ask(page, "Summarise the document")
        expect(answers(page, "running")).to_contain_text("Hall 0 was")
        page.wait_for_timeout(400)
        server.kill()
        expect(answers(page, "running")).to_contain_text("Connection lost")
        server.start()
        expect(answers(page, "interrupted")).to_contain_text("Interrupted: the server ended while answering")
        expect(answers(page, "interrupted")).to_contain_text("Hall")
    finally:
        server.stop()


def test_a_refused_key_is_explained(page: Page, simulator: Model, tmp_path: Path) -> None:
    server = Server(tmp_path / "data", {"ANTHROPIC_API_KEY": "invalid-key", "ANTHROPIC_BASE_URL": simulator.url})
    server.start()
    try:
        page.goto(server.url)
        ask(page, "Hello")
        error = part(answers(page, "failed"), "error")
        expect(error).to_be_visible()
        assert "Traceback" not in error.inner_text()
    finally:
        server.stop()


def test_a_model_that_the_table_does_not_have_is_said_to_be_one(page: Page, server: Server, model: Model) -> None:
    made = page.request.post(f"{server.url}/api/v1/conversations", data={"model": "somebody-7b"})
    page.goto(f"{server.url}/c/{made.json()['id']}")
    expect(part(page, "model-caution")).to_contain_text("The model table does not know “somebody-7b”")
    expect(part(page, "model")).to_have_text("somebody-7b")
    choose(part(page, "model"), "claude-opus-4-8")
    expect(part(page, "model-caution")).to_have_count(0)


def test_a_miss_of_the_cache_is_told_in_the_drawer(page: Page, server: Server, model: Model, manual: Path) -> None:
    page.goto(server.url)
    attach(page, manual)
    ask(page, "Which hall was built in 1907?")
    expect(answers(page)).to_have_count(1)
    page.request.post(f"{model.url}/_sim/faults", data=[{"kind": "cold_cache"}])
    ask(page, "And who built it?")
    expect(answers(page)).to_have_count(2)
    part(page, "context-bar").click()
    said = part(part(page, "context-drawer"), "why")
    expect(said).to_contain_text(re.compile(r"^0 of [\d.]+k tokens were read from the cache \([\d.]+k predicted\)"))
    expect(said).to_contain_text("the provider did not find what it had cached")
    expect(said).to_contain_text(re.compile(r"cached tokens were not read, \$0\.\d{4} more than reading them"))


def test_what_cannot_be_sent_stays_with_its_reason(page: Page, demo: Server, tmp_path: Path) -> None:
    page.goto(demo.url)
    part(page, "send").click()
    expect(part(page, "error")).to_contain_text("Write a message first")
    picture = tmp_path / "noise.bin"
    picture.write_bytes(bytes(range(256)) * 40)
    part(page, "attach-input").set_input_files(picture)
    expect(page.locator("[data-testid=file-chip][data-state=failed]")).to_be_visible()
    ask(page, "What is in it?")
    expect(part(page, "composer-hint")).to_contain_text("Remove it first")
    expect(part(page, "composer")).to_have_value("What is in it?")
    part(page, "file-chip").get_by_role("button", name="Remove noise.bin").click()
    page.route("**/turns", lambda route: route.abort())
    page.keyboard.press("Enter")
    part(page, "send").click()
    expect(part(page, "error")).to_contain_text("cannot be reached")
    expect(part(page, "composer")).to_have_value("What is in it?")
    page.unroute("**/turns")
    part(page, "send").click()
    expect(answers(page)).to_have_count(1)


def test_text_of_a_document_cannot_reach_outside(page: Page, demo: Server, tmp_path: Path, watched: Watched) -> None:
    evil = tmp_path / "visitors.txt"
    evil.write_text(
        "The visitor badge looks like ![badge](http://192.0.2.1/leak.png) and "
        "<img src=http://192.0.2.1/leak2.png onerror=alert(1)> at the gate.\n"
    )
    page.goto(demo.url)
    attach(page, evil)
    ask(page, "What does the visitor badge look like at the gate?")
    expect(answers(page)).to_contain_text("badge")
    assert answers(page).locator("img").count() == 0
    assert not [url for url in watched.asked if "192.0.2.1" in url]


def test_conversations_are_renamed_and_deleted(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Hello there")
    expect(answers(page)).to_have_count(1)
    item = page.locator("[data-testid=conversation-item][data-current=true]")
    menu(item, "conversation-rename")
    item.get_by_role("textbox").fill("Greetings")
    page.keyboard.press("Enter")
    expect(item).to_contain_text("Greetings")
    expect(page).to_have_title("Greetings · Lamella")
    menu(item, "conversation-delete")
    part(page, "confirm-action").click()
    expect(page).to_have_url(f"{demo.url}/")
    expect(part(page, "conversation-item").filter(has_text="Greetings")).to_have_count(0)
    page.goto(f"{demo.url}/c/conv_nothere")
    expect(part(page, "error")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_has_everything(page: Page, demo: Server, manual: Path, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(demo.url)
    attach(page, manual)
    ask(page, "How often is the cooling pump serviced?")
    expect(answers(page)).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    part(page, "citation").first.click()
    expect(part(page, "passage-mark")).to_be_in_viewport()
    page.get_by_role("button", name="Close panel").click()
    part(page, "context-bar").click()
    expect(part(page, "letters")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(part(page, "new-conversation")).not_to_be_in_viewport()
    part(page, "toggle-list").click()
    part(page, "new-conversation").click()
    expect(page).to_have_url(f"{demo.url}/")
    expect(part(page, "composer")).to_be_in_viewport()


def test_everything_is_reached_by_keyboard(page: Page, demo: Server, manual: Path) -> None:
    page.goto(demo.url)
    attach(page, manual)
    expect(part(page, "composer")).to_be_focused()
    page.keyboard.type("How often is the cooling pump serviced?")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("In hours.")
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(1)
    expect(part(page, "message-user")).to_contain_text("In hours.")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement?.dataset?.testid ?? ''"))
    wanted = {
        "search-open",
        "new-conversation",
        "model",
        "file-chip",
        "citation",
        "answer-context",
        "composer",
        "send",
        "context-open",
    }
    assert wanted <= reached
    page.keyboard.press("Control+Shift+O")
    expect(page).to_have_url(f"{demo.url}/")


def test_a_chat_is_downloaded(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    ask(page, "Which words are kept?")
    expect(answers(page)).to_have_count(1)
    item = page.locator("[data-testid=conversation-item][data-current=true]")
    with page.expect_download() as saved:
        menu(item, "conversation-markdown")
    assert saved.value.suggested_filename == "Which words are kept.md"
    text = saved.value.path().read_text(encoding="utf-8")
    assert text.startswith("# Which words are kept?\n\n## You, ")
    assert "## lamella-demo\n\n" in text
    with page.expect_download() as saved:
        menu(item, "conversation-json")
    assert len(msgspec.json.decode(saved.value.path().read_bytes())["turns"]) == 1
