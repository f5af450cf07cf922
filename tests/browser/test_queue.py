"""Messages that wait stand over the composer: in order, to be rewritten, taken out, or answered now."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def patient(simulator: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits a minute for more messages: longer than a test."""
    environment = {
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": simulator.url,
        "LAMELLA_DEBOUNCE_MS": "60000",
    }
    with running(Server(tmp_path_factory.mktemp("patient"), environment)) as server:
        yield server


def questions(page: Page) -> list[str]:
    return part(page, "message-user").all_inner_texts()


def test_messages_sent_during_an_answer_wait_over_the_composer(
    page: Page, server: Server, model: Model, watched: Watched
) -> None:
    page.goto(server.url)
    model.pace(20)
    ask(page, "Tell me something long.")
    expect(part(page, "stop")).to_be_visible()
    for text in ("Worse", "Never mind", "/status", "/new", "Last"):
        ask(page, text)
        expect(part(page, "composer")).to_have_value("")
    waiting = part(page, "queued")
    expect(waiting).to_have_text(["Worse", "Never mind", "/new", "Last"])
    expect(part(page, "told")).to_contain_text("in the window")

    part(page, "queued-text").first.click()
    part(page, "queued-edit").fill("Better")
    page.keyboard.press("Enter")
    expect(waiting.first).to_have_text("Better")
    part(page, "queued-text").first.click()
    part(page, "queued-edit").fill("Forgotten")
    page.keyboard.press("Escape")
    expect(part(page, "queued-edit")).to_have_count(0)
    waiting.nth(1).locator("[data-testid=queued-remove]").click()
    expect(waiting).to_have_text(["Better", "/new", "Last"])

    page.reload()
    expect(waiting).to_have_text(["Better", "/new", "Last"])
    model.pace(0)
    part(page, "stop").click()
    expect(waiting).to_have_count(0)
    expect(answers(page)).to_have_count(2)
    shown = questions(page)
    assert [text for text in ("Tell me", "Better", "Last") if any(text in one for one in shown)] == [
        "Tell me",
        "Better",
        "Last",
    ]
    assert not any("Never mind" in one or "Worse" in one or "Forgotten" in one for one in shown)
    expect(part(page, "session-divider")).to_have_count(1)
    assert watched.complaints == []


def test_quick_messages_are_answered_together_when_asked_to(page: Page, patient: Server, watched: Watched) -> None:
    page.goto(patient.url)
    ask(page, "One thing")
    expect(part(page, "queued")).to_have_text(["One thing"])
    ask(page, "and another")
    expect(part(page, "queued")).to_have_text(["One thing", "and another"])
    expect(part(page, "countdown")).to_contain_text("Answered in")
    expect(part(page, "thread")).to_have_text("")
    part(page, "answer-now").click()
    expect(answers(page)).to_have_count(1)
    expect(part(page, "queued")).to_have_count(0)
    assert "One thing" in questions(page)[0]
    assert "and another" in questions(page)[0]

    ask(page, "Third")
    expect(part(page, "queued")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(2)
    assert watched.complaints == []


def held(page: Page, address: str) -> list[Route]:
    """What the page posts to an address, held back until a test lets it go on."""
    found: list[Route] = []
    page.route(address, lambda route: found.append(route) if route.request.method == "POST" else route.continue_())
    return found


def arrived(page: Page, requests: list[Route]) -> Route:
    """The first of them, once the page has sent it."""
    for _ in range(500):
        if requests:
            return requests[0]
        page.wait_for_timeout(20)
    raise AssertionError("nothing was sent")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("by", ["Escape", "button"])
def test_a_stop_before_the_turn_has_an_id_stops_it(
    page: Page, server: Server, model: Model, by: str, first: bool, watched: Watched
) -> None:
    page.goto(server.url)
    if not first:
        ask(page, "Hello there.")
        expect(answers(page)).to_have_count(1)
    model.pace(20)
    sent = held(page, "**/turns")
    ask(page, "Tell me something very long.")
    arrived(page, sent)
    expect(part(page, "stop")).to_be_visible()
    if by == "Escape":
        page.keyboard.press("Escape")
    else:
        part(page, "stop").click()
    expect(part(page, "composer-hint")).to_contain_text("Stopping")
    sent[0].continue_()
    expect(answers(page, "stopped")).to_have_count(1)
    assert "very long" in questions(page)[-1]
    expect(part(page, "stop")).to_have_count(0)
    assert watched.complaints == []


def test_a_stop_before_anything_is_sent_leaves_the_text(page: Page, server: Server) -> None:
    """The new conversation is still being made: no message is on its way."""
    page.goto(server.url)
    made = held(page, "**/conversations")
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/turns") else None)
    ask(page, "Not this, after all.")
    arrived(page, made)
    expect(part(page, "stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(part(page, "composer-hint")).to_contain_text("Stopping")
    made[0].continue_()
    expect(part(page, "stop")).to_have_count(0)
    expect(part(page, "composer")).to_have_value("Not this, after all.")
    assert sent == []


def test_another_answer_that_was_asked_for_is_stopped_before_it_has_an_id(
    page: Page, server: Server, model: Model
) -> None:
    page.goto(server.url)
    ask(page, "Hello there.")
    expect(answers(page)).to_have_count(1)
    model.pace(20)
    sent = held(page, "**/turns")
    part(page, "regenerate").click()
    arrived(page, sent)
    expect(part(page, "stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(part(page, "composer-hint")).to_contain_text("Stopping")
    sent[0].continue_()
    expect(answers(page, "stopped")).to_have_count(1)


REFUSED = "/abort please do not"


def test_a_refused_edit_of_a_waiting_message_gives_its_text_back(page: Page, patient: Server) -> None:
    page.goto(patient.url)
    ask(page, "One thing")
    expect(part(page, "queued")).to_have_text(["One thing"])
    part(page, "queued-text").click()
    part(page, "queued-edit").fill(REFUSED)
    page.keyboard.press("Enter")
    expect(part(page, "error")).to_contain_text("takes no words after it")
    expect(part(page, "queued-edit")).to_have_value(REFUSED)
    part(page, "queued-edit").fill("Better")
    page.keyboard.press("Enter")
    expect(part(page, "queued")).to_have_text(["Better"])
    expect(part(page, "error")).to_have_count(0)


def test_an_edit_that_the_server_does_not_hear_is_not_lost(page: Page, patient: Server) -> None:
    page.goto(patient.url)
    ask(page, "One thing")
    expect(part(page, "queued")).to_have_text(["One thing"])
    page.route("**/queue/*", lambda route: route.abort())
    part(page, "queued-text").click()
    part(page, "queued-edit").fill("A thing that took long to write")
    page.keyboard.press("Enter")
    expect(part(page, "error")).to_contain_text("cannot be reached")
    expect(part(page, "queued-edit")).to_have_value("A thing that took long to write")


def test_what_is_being_rewritten_as_its_message_begins_is_given_back(page: Page, patient: Server) -> None:
    page.goto(patient.url)
    ask(page, "One thing")
    part(page, "queued-text").click()
    part(page, "queued-edit").fill("Another thing, half writ")
    conversation = page.url.rsplit("/", 1)[1]
    httpx2.post(f"{patient.url}/api/v1/conversations/{conversation}/queue/flush").raise_for_status()
    expect(answers(page)).to_have_count(1)
    expect(part(page, "queued")).to_have_count(0)
    assert "One thing" in questions(page)[0]
    expect(part(page, "composer")).to_have_value("Another thing, half writ")
