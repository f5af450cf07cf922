"""The search over all conversations: its box, its keys, and the way from a passage to the message, wherever that is."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

from .servers import Model, Server, Watched
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

PIER = "The walrus ate 42 oysters near the old pier."
HARBOUR = [f"Berth {n}: a barge with {n * 7} crates of slate." for n in range(240)] + [
    "The last berth has the skiff of the narwhal."
]
ANSWER = """Some steps:

1. Take the **red** ferry to the island.
2. Walk past the [lighthouse](https://example.org/lighthouse) at noon.
3. Ask for the quartermaster.
"""


class Talk:
    """A conversation over the API, as quick as the server is."""

    def __init__(self, server: Server, title: str) -> None:
        self._http = httpx2.Client(base_url=f"{server.url}/api/v1", timeout=60)
        self.id: str = self._post("/conversations", {"title": title})["id"]

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(path, json=body, headers={"Accept": "application/json"})
        answer.raise_for_status()
        made: dict[str, Any] = answer.json()
        return made

    def say(self, text: str, **more: object) -> dict[str, Any]:
        return self._post(f"/conversations/{self.id}/turns", {"text": text, "timezone": "UTC", **more})

    def begin_anew(self) -> None:
        self._post(f"/conversations/{self.id}/new", {})

    def upload(self, name: str, content: str) -> str:
        answer = self._http.post("/files", files={"file": (name, content.encode(), "text/plain")})
        answer.raise_for_status()
        return str(answer.json()["id"])


@pytest.fixture(scope="module")
def pier(server: Server) -> Talk:
    """A long conversation whose first message is the one to find."""
    talk = Talk(server, "Of the pier")
    talk.say(PIER)
    for n in range(60):
        talk.say(f"Message {n} of no weight.")
    return talk


@pytest.fixture(scope="module")
def branched(server: Server) -> Talk:
    """One in which a message was written anew: what followed the first is on a branch of its own."""
    talk = Talk(server, "Of two branches")
    talk.say("Which bird is it?")
    talk.say("A puffin, I believe.")
    talk.say("And what does the puffin eat?")
    talk.say("Which fish is it?", parent_message_id=None)
    return talk


@pytest.fixture(scope="module")
def older(server: Server) -> Talk:
    """One whose first session has ended."""
    talk = Talk(server, "Of two sessions")
    talk.say("My locker is number 8841, by the boathouse.")
    talk.begin_anew()
    talk.say("Now of something else.")
    return talk


@pytest.fixture(scope="module")
def harbour(server: Server, simulator: Model) -> Talk:
    """One in which a tool gave a long result, and an answer has Markdown."""
    talk = Talk(server, "Of the harbour")
    file = talk.upload("berths.txt", "\n".join(HARBOUR))
    call = {"name": "read_file", "id": "toolu_berths", "arguments": {"file_id": file}}
    replies = {
        "berths": {"match": "^Read the berths", "tool_calls": [call]},
        "island": {"match": "^How do I get", "text": ANSWER},
    }
    httpx2.post(f"{simulator.url}/_sim/replies", json=replies).raise_for_status()
    talk.say("Here they are.", file_ids=[file])
    talk.say("Read the berths, please.")
    talk.say("How do I get to the island?")
    return talk


def look_for(page: Page, words: str) -> Locator:
    """Open the search by its key and type; the passages, the best first."""
    expect(part(page, "composer")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(part(page, "search-words")).to_be_focused()
    page.keyboard.type(words)
    hits = part(page, "search-hit")
    expect(hits.first).to_be_visible()
    expect(hits.first.locator("mark").first).to_be_visible()
    return hits


def marked(page: Page) -> list[str]:
    """The words that are marked on the page, and in view."""
    for _ in range(20):
        found: list[str] = page.evaluate(
            """() => [...(CSS.highlights.get('found') ?? [])].filter((range) => {
              const { top, bottom } = range.getBoundingClientRect()
              const thread = document.querySelector('[data-testid=thread]').getBoundingClientRect()
              return bottom > top && top >= thread.top && bottom <= thread.bottom
            }).map(String)"""
        )
        if found:
            break
        page.wait_for_timeout(100)
    return found


def test_it_is_opened_worked_and_left_by_keys(page: Page, server: Server, pier: Talk, watched: Watched) -> None:
    page.goto(server.url)
    expect(part(page, "composer")).to_be_focused()
    part(page, "composer").fill("Half a message")
    page.keyboard.press("ControlOrMeta+k")
    box = page.get_by_role("combobox", name="Search chats, or type a command")
    expect(box).to_be_focused()
    expect(part(page, "search-status")).to_contain_text("Chats by title and by what was said")
    page.keyboard.type("walrus oysters")
    options = page.get_by_role("group", name="Passages").get_by_role("option")
    expect(options.first).to_contain_text(PIER)
    expect(options.first).to_contain_text("Of the pier")
    expect(options.first.locator("mark")).to_have_text(["walrus", "oysters"])
    expect(options.first).to_have_attribute("aria-selected", "true")
    count = options.count()
    expect(part(page, "search-status")).to_have_text(f"{count} passages.")
    page.keyboard.press("ArrowUp")
    expect(options.nth(count - 1)).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", str(options.nth(count - 1).get_attribute("id")))
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")

    page.keyboard.press("Escape")
    expect(part(page, "search")).to_have_count(0)
    expect(part(page, "composer")).to_be_focused()
    expect(part(page, "composer")).to_have_value("Half a message")
    expect(page).to_have_url(f"{server.url}/")

    part(page, "search-open").click()
    expect(part(page, "search-words")).to_be_focused()
    page.keyboard.type("zzyzx")
    status = part(page, "search-status")
    expect(status).to_contain_text("Nothing was found.")
    why = httpx2.get(f"{server.url}/api/v1/sessions/search?q=zzyzx").json()["lexical_only_reason"]
    if why is not None:
        expect(status).to_contain_text(f"Searched by words alone. {why}")
    page.keyboard.press("Enter")
    expect(part(page, "search")).to_be_visible()
    page.keyboard.press("Escape")
    expect(part(page, "search-open")).to_be_focused()
    assert watched.complaints == []


def test_it_opens_pages_and_chats_by_their_names(page: Page, server: Server, pier: Talk, watched: Watched) -> None:
    page.goto(server.url)
    expect(part(page, "composer")).to_be_focused()
    page.keyboard.press("ControlOrMeta+k")
    entries = part(page, "search-entry")
    expect(entries.first).to_contain_text("New chat")
    expect(page.get_by_role("group", name="Chats").get_by_role("option").first).to_be_visible()
    page.keyboard.type("know")
    expect(entries).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/knowledge")
    page.keyboard.press("ControlOrMeta+k")
    page.keyboard.type("pier of")
    chat = page.get_by_role("group", name="Chats").get_by_role("option")
    expect(chat).to_have_text(re.compile("^Of the pier"))
    expect(chat).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/c/{pier.id}")
    assert watched.complaints == []


def test_escape_in_it_stops_no_answer_and_a_new_conversation_has_a_key_of_its_own(
    page: Page, server: Server, model: Model, pier: Talk
) -> None:
    page.goto(f"{server.url}/c/{pier.id}")
    expect(answers(page).last).to_be_visible()
    model.pace(20)
    ask(page, "Tell me something long.")
    expect(answers(page, "running")).to_have_count(1)
    look_for(page, "walrus")
    page.keyboard.press("Escape")
    expect(part(page, "search")).to_have_count(0)
    page.wait_for_timeout(300)
    expect(answers(page, "running")).to_have_count(1)
    model.pace(0)
    expect(answers(page, "running")).to_have_count(0)
    assert answers(page, "stopped").count() == 0
    page.keyboard.press("Control+Shift+O")
    expect(page).to_have_url(f"{server.url}/")


def test_on_a_phone_it_gives_the_focus_back_to_the_button_of_the_list(page: Page, server: Server, pier: Talk) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(server.url)
    part(page, "toggle-list").click()
    part(page, "search-open").click()
    expect(part(page, "search-words")).to_be_focused()
    page.keyboard.type("walrus")
    expect(part(page, "search-hit").first).to_be_visible()
    box = part(page, "search").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    expect(part(page, "search")).to_have_count(0)
    expect(part(page, "toggle-list")).to_be_focused()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_passage_far_up_is_gone_to_and_stays_in_view(
    page: Page, server: Server, pier: Talk, watched: Watched, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(server.url)
    if width == 390:
        part(page, "toggle-list").click()
        part(page, "search-open").click()
        expect(part(page, "search-words")).to_be_focused()
        page.keyboard.type("walrus oysters")
        part(page, "search-hit").first.click()
    else:
        look_for(page, "walrus oysters")
        page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/c/{pier.id}")
    message = part(page, "message-user").first
    expect(message).to_contain_text(PIER)
    expect(message).to_be_focused()
    expect(part(page, "message-assistant").and_(page.locator("[data-status=loading]"))).to_have_count(0)
    assert marked(page) == ["walrus", "oysters"], "also after everything around it has come"
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    page.mouse.move(width / 2, 300)
    page.mouse.wheel(0, 4000)
    page.wait_for_timeout(300)
    expect(message).not_to_be_in_viewport()
    assert watched.complaints == []


def test_a_passage_on_another_branch_brings_that_branch(
    page: Page, server: Server, branched: Talk, watched: Watched
) -> None:
    page.goto(f"{server.url}/c/{branched.id}")
    expect(part(page, "message-user")).to_have_count(1)
    look_for(page, "puffin eat")
    page.keyboard.press("Enter")
    expect(part(page, "message-user")).to_have_count(3)
    expect(part(page, "message-user").last).to_be_focused()
    expect(part(page, "sibling-place")).to_have_text("Branch 1/2")
    assert "puffin" in marked(page)
    assert part(page, "error").count() == 0
    part(page, "sibling-later").click()
    expect(part(page, "message-user")).to_have_count(1)
    page.wait_for_timeout(500)
    expect(part(page, "message-user")).to_contain_text("Which fish")
    assert watched.complaints == []


def test_a_branch_that_can_not_be_gone_to_now_says_why(page: Page, server: Server, model: Model) -> None:
    talk = Talk(server, "Of a busy branch")
    talk.say("A cormorant dries its wings.")
    talk.say("Something else.", parent_message_id=None)
    page.goto(f"{server.url}/c/{talk.id}")
    expect(answers(page)).to_have_count(1)
    model.pace(20)
    ask(page, "Tell me something long.")
    expect(answers(page, "running")).to_have_count(1)
    look_for(page, "cormorant")
    page.keyboard.press("Enter")
    expect(part(page, "error")).to_be_visible()
    expect(part(page, "going")).to_be_empty()
    expect(answers(page, "running")).to_have_count(1)
    model.pace(0)
    expect(answers(page)).to_have_count(2)
    look_for(page, "cormorant")
    page.keyboard.press("Enter")
    expect(part(page, "message-user")).to_have_count(1)
    assert marked(page) == ["cormorant"]


def test_a_passage_of_an_older_session_is_gone_to_from_another_conversation(
    page: Page, server: Server, older: Talk, pier: Talk
) -> None:
    page.goto(f"{server.url}/c/{pier.id}")
    expect(answers(page).last).to_be_visible()
    look_for(page, "locker boathouse")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/c/{older.id}")
    message = part(page, "message-user").first
    expect(message).to_be_focused()
    expect(message).to_contain_text("8841")
    assert marked(page) == ["locker", "boathouse"]


def test_a_passage_in_an_answer_is_found_through_its_markdown(page: Page, server: Server, harbour: Talk) -> None:
    page.goto(server.url)
    look_for(page, "lighthouse quartermaster")
    page.keyboard.press("Enter")
    expect(answers(page).last).to_be_focused()
    expect(answers(page).last).to_contain_text("red ferry")
    assert marked(page) == ["lighthouse", "quartermaster"]


def test_a_passage_in_a_long_result_opens_its_card(page: Page, server: Server, harbour: Talk) -> None:
    page.goto(server.url)
    hits = look_for(page, "skiff narwhal")
    hits.filter(has_text="read_file").first.click()
    card = part(page, "tool-call").first
    expect(card).to_have_attribute("open", "")
    expect(card.locator("pre").last).to_contain_text(HARBOUR[-1])
    page.wait_for_timeout(300)
    assert marked(page) == ["skiff", "narwhal"]
    inside = page.evaluate(
        """() => { const [range] = CSS.highlights.get('found'), box = range.startContainer.parentElement.closest('pre')
          const { top, bottom } = range.getBoundingClientRect(), around = box.getBoundingClientRect()
          return top >= around.top && bottom <= around.bottom }"""
    )
    assert inside, "scrolled to within the result"


def test_the_passages_of_the_sessions_panel_lead_to_their_messages(page: Page, server: Server, older: Talk) -> None:
    page.goto(f"{server.url}/c/{older.id}")
    part(page, "sessions-open").click()
    part(page, "sessions-search").fill("locker")
    page.keyboard.press("Enter")
    part(page, "search-hit").first.click()
    expect(part(page, "message-user").first).to_be_focused()
    assert marked(page) == ["locker"]
