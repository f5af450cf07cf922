"""Messages that wait stand over the composer: in order, to be rewritten, taken out, or answered now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, part

pytestmark = pytest.mark.browser


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
