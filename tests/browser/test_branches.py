"""Several models side by side, and branches: kept, stopped, failed, edited, asked again, in two windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, choose, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

FIRST, SECOND, REFUSED = "claude-sonnet-5-5", "claude-haiku-5-5", "gpt-6-luna"
LONG = "Tell me something long."


@pytest.fixture(scope="module")
def many(simulator: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the models of two providers, one of which refuses its key."""
    environment = {
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": simulator.url,
        "OPENAI_API_KEY": "invalid-key",
        "OPENAI_BASE_URL": f"{simulator.url}/v1",
        "LAMELLA_MODEL": FIRST,
        "LAMELLA_TITLES": "off",
    }
    with running(Server(tmp_path_factory.mktemp("many"), environment)) as server:
        yield server


def run(page: Page, model: str) -> Locator:
    return page.locator(f"[data-testid=run][data-model='{model}']")


def has(page: Page, model: str, status: str) -> None:
    expect(run(page, model)).to_have_attribute("data-status", status)


def compare(page: Page, *models: str) -> None:
    for place, model in enumerate(models, 1):
        choose(part(page, f"choose-compare-{place}"), model)


def enter(button: Locator) -> None:
    expect(button).to_be_enabled()
    button.press("Enter")


class HeldLists:
    """Keeps back what a page is told of the turns of its conversation, as a slow network would."""

    def __init__(self, page: Page) -> None:
        self._kept: list[Route] = []
        self._holds = True
        page.route("**/turns?*", self._pass)

    def _pass(self, route: Route) -> None:
        if self._holds:
            self._kept.append(route)
        else:
            route.continue_()

    def release(self) -> None:
        self._holds = False
        for route in self._kept:
            route.continue_()


def questions(page: Page) -> list[str]:
    return [one.splitlines()[0] for one in part(page, "message-user").all_inner_texts()]


def test_three_models_answer_and_each_ends_in_its_own_way(
    page: Page, many: Server, model: Model, watched: Watched
) -> None:
    page.goto(many.url)
    compare(page, SECOND, REFUSED)
    note = f"A tool that changes something outside runs for {FIRST} only, unless it asks you first."
    expect(part(page, "compare-note")).to_have_text(note)
    model.pace(20)
    ask(page, LONG)
    has(page, REFUSED, "failed")
    expect(part(run(page, REFUSED), "error")).to_contain_text("key")
    has(page, FIRST, "running")
    has(page, SECOND, "running")
    expect(run(page, SECOND)).not_to_contain_text("Waiting for the model")
    expect(answers(page, "running")).to_have_count(1)

    page.reload()
    has(page, REFUSED, "failed")
    has(page, FIRST, "running")
    part(run(page, SECOND), "run-stop").click()
    has(page, SECOND, "stopped")
    has(page, FIRST, "running")
    model.pace(0)
    has(page, FIRST, "finished")
    expect(answers(page)).to_have_count(1)
    expect(run(page, FIRST)).to_have_attribute("data-kept", "true")
    assert part(run(page, REFUSED), "run-keep").count() == 0

    part(run(page, SECOND), "run-keep").click()
    expect(run(page, SECOND)).to_have_attribute("data-kept", "true")
    expect(run(page, FIRST)).to_have_attribute("data-kept", "false")
    shown = part(page, "runs").inner_text()
    page.reload()
    expect(run(page, SECOND)).to_have_attribute("data-kept", "true")
    expect(part(page, "runs")).to_have_text(re.compile("Stopped"))
    assert part(page, "runs").inner_text() == shown
    assert watched.complaints == []


def test_another_answer_is_kept_after_the_next_message(
    page: Page, many: Server, model: Model, watched: Watched
) -> None:
    page.goto(many.url)
    compare(page, SECOND)
    ask(page, "First question")
    has(page, SECOND, "finished")
    expect(run(page, FIRST)).to_have_attribute("data-kept", "true")
    expect(part(page, "choose-compare-1")).to_have_text(SECOND)
    page.reload()
    expect(part(page, "choose-compare-1")).to_have_text(SECOND)
    choose(part(page, "choose-compare-1"), "no other model")
    page.reload()
    expect(part(page, "choose-compare-1")).to_have_text("no other model")
    ask(page, "Second question")
    expect(answers(page)).to_have_count(2)
    part(run(page, SECOND), "run-keep").click()
    expect(answers(page)).to_have_count(1)
    ask(page, "Another second question")
    expect(answers(page)).to_have_count(2)
    part(run(page, FIRST), "run-keep").click()
    expect(run(page, FIRST)).to_have_attribute("data-kept", "true")
    expect(part(page, "message-user").last).to_contain_text("Second question")
    assert watched.complaints == []


def test_a_message_is_edited_and_asked_again_by_keyboard(
    page: Page, many: Server, model: Model, watched: Watched
) -> None:
    page.goto(many.url)
    ask(page, "One")
    expect(answers(page)).to_have_count(1)
    ask(page, "Two")
    expect(answers(page)).to_have_count(2)

    enter(part(page, "message-edit").last)
    expect(part(page, "message-editor")).to_be_focused()
    page.keyboard.press("Escape")
    expect(part(page, "message-edit").last).to_be_focused()
    page.keyboard.press("Enter")
    part(page, "message-editor").fill("Two, better")
    page.keyboard.press("Enter")
    expect(part(page, "sibling-place")).to_have_text("Branch 2/2")
    expect(part(page, "message-editor")).to_have_count(0)
    expect(answers(page)).to_have_count(2)
    assert questions(page) == ["One", "Two, better"]

    enter(part(page, "regenerate").last)
    expect(part(page, "sibling-place")).to_have_text("Branch 3/3")
    expect(answers(page)).to_have_count(2)
    assert questions(page) == ["One", "Two, better"]

    earlier = part(page, "sibling-earlier")
    earlier.focus()
    page.keyboard.press("Enter")
    expect(part(page, "sibling-place")).to_have_text("Branch 2/3")
    expect(earlier).to_be_focused()
    page.keyboard.press("Enter")
    expect(part(page, "sibling-place")).to_have_text("Branch 1/3")
    assert questions(page) == ["One", "Two"]
    expect(earlier).to_have_attribute("aria-disabled", "true")

    part(page, "message-edit").first.click()
    part(page, "message-editor").fill("One, better")
    part(page, "message-edit-send").click()
    expect(part(page, "message-user")).to_have_count(1)
    expect(part(page, "sibling-place")).to_have_text("Branch 2/2")
    expect(answers(page)).to_have_count(1)
    earlier.click()
    expect(part(page, "message-user")).to_have_count(2)
    page.reload()
    expect(part(page, "sibling-place")).to_have_text(["Branch 1/2", "Branch 3/3"])
    assert questions(page) == ["One", "Two, better"], "the newest of what followed"
    assert watched.complaints == []


def test_an_answer_is_asked_again_and_edited_as_soon_as_it_is_there(
    page: Page, many: Server, model: Model, watched: Watched
) -> None:
    page.goto(many.url)
    ask(page, "One")
    expect(answers(page)).to_have_count(1)
    lists = HeldLists(page)
    ask(page, "Two")
    expect(answers(page)).to_have_count(2)
    expect(part(page, "message-edit")).to_have_count(2)
    expect(part(page, "regenerate")).to_have_count(2)
    enter(part(page, "message-edit").last)
    part(page, "message-editor").fill("Two, better")
    lists.release()
    page.keyboard.press("Enter")
    expect(part(page, "sibling-place")).to_have_text("Branch 2/2")
    assert questions(page) == ["One", "Two, better"]
    assert watched.complaints == []


def test_a_list_that_comes_late_takes_no_message_away(page: Page, many: Server, model: Model, watched: Watched) -> None:
    page.goto(many.url)
    ask(page, "One")
    expect(answers(page)).to_have_count(1)
    late: list[tuple[Route, APIResponse]] = []

    def answered_late(route: Route) -> None:
        if late:
            route.continue_()
        else:
            late.append((route, route.fetch()))

    page.route("**/turns?*", answered_late)
    with page.expect_request("**/turns?*"):
        ask(page, "/status")
    expect(part(page, "composer")).to_have_value("")
    model.pace(20)
    ask(page, LONG)
    expect(answers(page, "running")).to_have_count(1)
    (route, before), *_ = late
    with page.expect_response("**/turns?*"):
        route.fulfill(response=before)
    model.pace(0)
    expect(answers(page)).to_have_count(2)
    assert questions(page) == ["One", LONG]
    assert part(page, "error").count() == 0
    assert watched.complaints == []


def test_a_branch_made_in_another_window_is_said_and_nothing_is_sent_to_it(
    page: Page, many: Server, model: Model, watched: Watched
) -> None:
    page.goto(many.url)
    ask(page, "One")
    expect(answers(page)).to_have_count(1)
    other = page.context.new_page()
    other.goto(page.url)
    expect(answers(other)).to_have_count(1)
    part(other, "message-edit").click()
    part(other, "message-editor").fill("Something else")
    other.keyboard.press("Enter")
    expect(answers(other)).to_have_count(1)
    expect(part(other, "sibling-place")).to_have_text("Branch 2/2")

    ask(page, "And then?")
    expect(part(page, "error")).to_contain_text("went on in another branch, in another window")
    expect(part(page, "composer")).to_have_value("And then?")
    expect(part(page, "sibling-place")).to_have_text("Branch 2/2")
    assert questions(page) == ["Something else"]
    part(page, "sibling-earlier").click()
    expect(part(page, "sibling-place")).to_have_text("Branch 1/2")
    part(page, "send").click()
    expect(answers(page)).to_have_count(2)
    assert questions(page) == ["One", "And then?"]
    assert watched.complaints == []


@pytest.mark.parametrize("width", [390, 1280])
def test_columns_stand_beside_each_other_where_there_is_room(
    page: Page, many: Server, model: Model, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    page.goto(many.url)
    compare(page, SECOND, REFUSED)
    ask(page, "Hello")
    expect(answers(page)).to_have_count(1)
    # All at one moment: what comes later moves all of them.
    boxes = part(page, "run").evaluate_all("runs => runs.map(run => run.getBoundingClientRect().toJSON())")
    assert len(boxes) == 3
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if width == 390:
        assert len({box["x"] for box in boxes}) == 1
        assert sorted(boxes, key=lambda box: box["y"]) == boxes
    else:
        assert len({box["y"] for box in boxes}) == 1
        assert [box["x"] for box in boxes] == sorted({box["x"] for box in boxes})


def test_a_server_with_one_model_offers_no_comparison(page: Page, demo: Server) -> None:
    page.goto(demo.url)
    expect(part(page, "choices")).to_be_visible()
    expect(part(page, "model")).to_be_visible()
    assert part(page, "compare").count() == 0
