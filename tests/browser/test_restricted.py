"""Restricted access on the page: what owners see before and after they share a base, and what readers see of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from .servers import Model, Server, running
from .steps import choose, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

LEASE = """# Lease of the northern mill

The tenant pays the rent at the start of each month, and keeps the geese out of the yard in winter.

# Project Falcon, 3 May

The board met with Zeppelin in May. People from Zeppelin came to us, and Zeppelin paid for the barn.
"""
SAID = "The documents deal with what a tenant owes. There are geese in winter. It is 1,234,500 euros."


@dataclass
class House:
    """A server with a second model, an owner Ann with a base, and Bob, who may get access."""

    server: Server
    model: Model
    ann: str
    bob: str
    base: str = ""

    def ask(self, method: str, path: str, key: str, **options: object) -> dict[str, object]:
        """The answer of the API under `/api/v1`."""
        headers = {"authorization": f"Bearer {key}"}
        url = f"{self.server.url}/api/v1{path}"
        answer = httpx2.request(method, url, headers=headers, trust_env=False, timeout=120, **options)  # type: ignore[arg-type]
        answer.raise_for_status()
        found: dict[str, object] = answer.json() if answer.content else {}
        return found

    def says(self, text: str) -> None:
        """What the model answers from now on."""
        httpx2.post(f"{self.model.url}/_sim/replies", json={"said": {"text": text}}).raise_for_status()
        httpx2.post(f"{self.model.url}/_sim/settings", json={"default_reply": "said"}).raise_for_status()

    def says_safely(self, summary: str) -> None:
        """The summary that the second model gives from now on."""
        self.says(safely(summary))


def safely(summary: str) -> str:
    """What a second model answers that keeps to its form."""
    return json.dumps({"decision": "answer", "reason": "answered", "summary": summary, "confidence": 0.9})


def secret(made: dict[str, object]) -> str:
    """The key in an answer."""
    key = made["key"]
    assert isinstance(key, dict)
    return str(key["secret"])


@pytest.fixture(scope="module")
def opened(simulator: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], House]]:
    """Opens the house once with and once without a second model."""
    made: dict[bool, House] = {}
    ends: list[Callable[[], object]] = []

    def of(second: bool) -> House:
        if second not in made:
            environment = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": simulator.url}
            environment |= {"LAMELLA_RESTRICTED_MODEL": "claude-haiku-4-5"} if second else {}
            context = running(Server(tmp_path_factory.mktemp("house"), environment))
            made[second] = settled(context.__enter__(), simulator)
            ends.append(lambda: context.__exit__(None, None, None))
        return made[second]

    yield of
    for end in ends:
        end()


def settled(server: Server, model: Model) -> House:
    """Ann, her base with one document that is ready, and Bob."""
    url = f"{server.url}/api/v1"
    token = (server.data / "first-run.token").read_text()
    ann = secret(httpx2.post(f"{url}/setup", json={"name": "Ann", "token": token}, trust_env=False).json())
    house = House(server, model, ann, "")
    house.bob = secret(house.ask("POST", "/users", ann, json={"name": "Bob"}))
    told = {"name": "Lease of the northern mill", "description": "Duties of tenants. It costs 4711 euros."}
    house.base = str(house.ask("POST", "/knowledge-bases", ann, json=told)["id"])
    file = {"file": ("lease.md", LEASE.encode())}
    house.ask("POST", f"/knowledge-bases/{house.base}/documents", ann, files=file)
    while True:
        listed = house.ask("GET", f"/knowledge-bases/{house.base}/documents", ann)
        totals = listed["totals"]
        assert isinstance(totals, dict)
        if totals["unfinished"] == 0:
            break
    # The word lists are read with the first look: seconds that no test of the page should wait for.
    house.ask("GET", f"/knowledge-bases/{house.base}/readiness", ann)
    return house


def base_of(page: Page, house: House, key: str) -> None:
    """Logs in and opens the base."""
    page.goto(house.server.url)
    page.get_by_label("Your key").fill(key)
    page.get_by_test_id("log-in").click()
    expect(part(page, "composer")).to_be_visible()
    page.goto(f"{house.server.url}/knowledge/{house.base}")


def restricted(page: Page, name: str) -> None:
    """Opens a part of the restricted access of the base."""
    part(page, "base-restricted").click()
    part(page, f"restricted-{name}").click()


@pytest.fixture
def house(opened: Callable[[bool], House]) -> House:
    return opened(True)


def test_an_owner_is_warned_before_sharing_without_a_second_model(page: Page, opened: Callable[[bool], House]) -> None:
    house = opened(False)
    base_of(page, house, house.ann)
    part(page, "base-access").click()
    expect(part(page, "restricted-missing")).to_contain_text("The server has no second model")
    choose(page.get_by_label("Level of access"), "full: everything")
    expect(part(page, "restricted-missing")).to_have_count(0)
    choose(page.get_by_label("Level of access"), "restricted: answers in general words")
    choose(page.get_by_label("Who"), "Bob")
    part(page, "grant-add").click()
    expect(part(page, "grant-warning")).to_contain_text("Each question is refused")


def test_an_owner_sees_what_a_base_tells_and_corrects_names(page: Page, house: House) -> None:
    base_of(page, house, house.ann)
    restricted(page, "ready")
    expect(part(page, "restricted-missing")).to_have_count(0)
    telling = part(page, "restricted-telling")
    expect(telling.filter(has_text="Name:")).to_contain_text("Give it a general name")
    expect(telling.filter(has_text="Description:")).to_contain_text("Readers see: Duties of tenants.")
    part(page, "telling-headings").locator("summary").click()
    expect(part(page, "telling-headings")).to_contain_text("Project Falcon, 3 May → project [name], [figure]")
    expect(part(page, "restricted-bounds")).to_contain_text("at most 200 answers in 24 hours, 20 of them short")

    restricted(page, "terms")
    found = part(page, "restricted-term")
    zeppelin = found.filter(has_text="zeppelin")
    expect(zeppelin).to_have_attribute("data-state", "found")
    expect(zeppelin).to_contain_text("found 3 times")
    page.get_by_label("Allow “zeppelin”").click()
    expect(zeppelin).to_have_attribute("data-state", "allowed")
    page.get_by_label("A name to add").fill("Blue Door")
    part(page, "add-term").click()
    expect(found.filter(has_text="Blue Door")).to_contain_text("added by you")
    page.get_by_label("Search the names").fill("blue")
    expect(found).to_have_count(1)
    page.get_by_label("Search the names").fill("")
    choose(page.get_by_label("Which names"), "Allowed")
    expect(found).to_have_count(1)
    page.get_by_label("Undo “zeppelin”").click()
    expect(found).to_have_count(0)
    terms = house.ask("GET", f"/knowledge-bases/{house.base}/restricted-terms", house.ann)
    assert (terms["confirmed"], terms["allowed"]) == (["Blue Door"], [])


def test_many_questions_are_previewed_with_what_was_cut(page: Page, house: House) -> None:
    house.says_safely(SAID)
    base_of(page, house, house.ann)
    restricted(page, "preview")
    page.get_by_label("Questions").fill("What does a tenant owe?\n\nWhat of the geese?\nWhat does a tenant owe?")
    part(page, "restricted-try").click()
    answers = part(page, "restricted-answer")
    expect(answers).to_have_count(2)
    first = answers.first
    expect(part(first, "restricted-safe")).to_have_text(
        "The documents deal with what a tenant owes. There are geese in winter."
    )
    expect(part(first, "restricted-cut")).to_contain_text("It is 1,234,500 euros.")
    expect(part(first, "restricted-cut")).to_contain_text("a figure or date")
    expect(part(page, "restricted-shares")).to_have_text("0 of 2 questions refused (0 %), 2 of 6 sentences cut (33 %)")
    # Another part is looked at, and the answers are there still.
    restricted(page, "ready")
    restricted(page, "preview")
    expect(answers).to_have_count(2)


def test_the_level_is_chosen_with_choices_of_the_owner(page: Page, house: House) -> None:
    base_of(page, house, house.ann)
    restricted(page, "level")
    page.get_by_label("Form", exact=False).check()
    part(page, "save-level").click()
    expect(part(page, "field-problem")).to_be_visible()
    page.get_by_label("Question", exact=True).fill("Notice period")
    page.get_by_label("Choices", exact=True).fill("a month\nlonger\nnot said\n")
    expect(part(page, "level-choices")).to_contain_text("3 different answers")
    part(page, "save-level").click()
    expect(part(page, "restricted-level-form")).to_contain_text("Saved.")
    base = house.ask("GET", f"/knowledge-bases/{house.base}", house.ann)
    form = [{"name": "Notice period", "choices": ["a month", "longer", "not said"]}]
    assert (base["restricted_level"], base["form"]) == ("form", form)
    httpx2.post(f"{house.model.url}/_sim/settings", json={"default_reply": None}).raise_for_status()
    restricted(page, "preview")
    page.get_by_label("Questions").fill("When does the tenant pay the rent?")
    part(page, "restricted-try").click()
    expect(part(page, "restricted-safe")).to_have_text("Notice period: longer.")
    restricted(page, "level")
    page.get_by_label("Existence", exact=False).check()
    page.get_by_label("Whom to ask", exact=True).fill("Ann in the office")
    part(page, "save-level").click()
    expect(part(page, "restricted-level-form")).to_contain_text("Saved.")
    base = house.ask("GET", f"/knowledge-bases/{house.base}", house.ann)
    assert (base["restricted_level"], base["contact"], base["form"]) == ("existence", "Ann in the office", form)
    page.get_by_label("Summary", exact=False).first.check()
    part(page, "save-level").click()
    expect(part(page, "restricted-level-form")).to_contain_text("Saved.")


def test_an_owner_sees_what_went_out_next_to_the_passage(page: Page, house: House, browser: Browser) -> None:
    bob = next(user for user in house.ask("GET", "/users", house.ann)["data"] if user["name"] == "Bob")  # type: ignore[attr-defined]
    house.ask("PUT", f"/knowledge-bases/{house.base}/grants/{bob['id']}", house.ann, json={"level": "restricted"})
    house.ask("PATCH", f"/knowledge-bases/{house.base}", house.ann, json={"restricted_level": "summary"})
    asks(house, "What of the geese?")
    base_of(page, house, house.ann)
    restricted(page, "uses")
    expect(part(page, "restricted-reader")).to_contain_text("Bob · 1 answer, 0 short")
    use = part(page, "restricted-use")
    expect(use).to_contain_text("There are geese in winter.")
    part(use, "disclosed-open").click()
    passage = part(page, "disclosed-passage")
    expect(passage.locator("mark")).to_contain_text(["tenant", "geese", "winter"])
    expect(passage).to_contain_text("on “What of the geese?”")
    page.get_by_role("button", name="Back", exact=True).click()
    expect(use).to_have_count(1)

    with browser.new_context() as context:
        reader = context.new_page()
        base_of(reader, house, house.bob)
        expect(reader.get_by_role("heading", level=1)).to_have_text("Knowledge base with restricted access")
        expect(part(reader, "base")).to_contain_text("Restricted: you may ask about it")
        expect(part(reader, "base")).to_contain_text("Duties of tenants.")
        for closed in ("documents", "search", "access", "restricted"):
            expect(part(reader, f"base-{closed}")).to_have_count(0)
        expect(part(reader, "base")).not_to_contain_text("northern")
        expect(part(reader, "base")).not_to_contain_text("4711")


def asks(house: House, question: str) -> None:
    """A message of Bob's, for which the model searches the base."""
    call = {"name": "knowledge_base_search", "arguments": {"query": question}}
    replies = {
        "search": {"match": f"^{question[:-1]}", "tool_calls": [call]},
        "second": {"match": '"passages_are"', "text": safely(SAID)},
        "after": {"match": '"restricted": ', "text": "There are geese."},
    }
    httpx2.post(f"{house.model.url}/_sim/settings", json={"default_reply": None}).raise_for_status()
    httpx2.post(f"{house.model.url}/_sim/replies", json=replies).raise_for_status()
    conversation = house.ask("POST", "/conversations", house.bob, json={})["id"]
    headers = {"authorization": f"Bearer {house.bob}"}
    url = f"{house.server.url}/api/v1/conversations/{conversation}/turns"
    body = {"text": question, "knowledge_base_ids": [house.base]}
    answer = httpx2.post(url, headers=headers, json=body, trust_env=False, timeout=60)
    assert "There are geese." in answer.text, answer.text


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
def test_every_part_fits_the_screen(page: Page, house: House, width: int, tmp_path: Path) -> None:
    house.says_safely(SAID)
    page.set_viewport_size({"width": width, "height": 860})
    base_of(page, house, house.ann)
    for name in ("ready", "level", "terms", "preview", "uses"):
        restricted(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = "one => [one, ...one.children].filter(each => each.scrollWidth > each.clientWidth).length"
        assert part(page, "base").evaluate(wide) == 0, name
