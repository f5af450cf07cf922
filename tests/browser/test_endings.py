"""Answers that are none or not whole, on the page: what happened and what to do, also after a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from lamella.core.json import Json

from .servers import Model, Server, Watched
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

ANSWER = "It opens at nine, and it closes at eight."


@pytest.fixture
def says(model: Model) -> Iterator[Callable[[Json], None]]:
    """Lets the model answer so, with a fault that may come as often as told."""

    def script(fault: Json) -> None:
        httpx2.post(f"{model.url}/_sim/replies", json={"end": {"text": ANSWER, "fault": fault}}).raise_for_status()
        choose("end")

    def choose(reply: str | None) -> None:
        httpx2.post(f"{model.url}/_sim/settings", json={"default_reply": reply}).raise_for_status()

    yield script
    choose(None)


def test_an_answer_that_is_cut_off_says_so(
    page: Page, server: Server, says: Callable[[Json], None], watched: Watched
) -> None:
    says({"kind": "max_tokens", "when": 8})
    page.goto(server.url)
    ask(page, "When does it open?")
    for _ in range(2):
        expect(answers(page)).to_contain_text("It opens")
        expect(part(page, "partial")).to_contain_text("The answer is not whole")
        expect(part(page, "partial")).to_contain_text("Ask it to go on")
        expect(part(page, "error")).to_have_count(0)
        page.reload()
    assert watched.complaints == []


def test_no_answer_is_an_error_and_no_empty_bubble(
    page: Page, server: Server, says: Callable[[Json], None], watched: Watched
) -> None:
    says({"kind": "empty", "times": 2})
    page.goto(server.url)
    ask(page, "When does it open?")
    for _ in range(2):
        error = answers(page, "failed").locator("[data-testid=error]")
        expect(error).to_contain_text("without saying anything")
        expect(error).to_contain_text("Send the message again")
        page.reload()
    part(page, "regenerate").click()
    expect(answers(page)).to_contain_text(ANSWER)
    assert watched.complaints == []
