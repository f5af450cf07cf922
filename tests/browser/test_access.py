"""Getting in with a key, one's keys, and who may read a knowledge base, on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from .servers import Server, running
from .steps import choose

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Server]:
    with running(Server(tmp_path / "data")) as server:
        yield server


def posted(server: Server, path: str, body: dict[str, str], key: str | None = None) -> dict[str, object]:
    """The answer to a POST under `/api/v1`."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    answer = httpx2.post(f"{server.url}/api/v1{path}", json=body, headers=headers, trust_env=False)
    answer.raise_for_status()
    found: dict[str, object] = answer.json()
    return found


def secret_of(made: dict[str, object]) -> str:
    """The key in an answer."""
    key = made["key"]
    assert isinstance(key, dict)
    return str(key["secret"])


def test_a_key_lets_in_and_a_base_is_shared_with_its_levels(house: Server, browser: Browser) -> None:
    ann = secret_of(posted(house, "/setup", {"name": "Ann", "token": (house.data / "first-run.token").read_text()}))
    posted(house, "/users", {"name": "Bob"}, ann)
    posted(house, "/groups", {"name": "Staff"}, ann)
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(house.url)
        page.get_by_label("Your key").fill("lam_wrong")
        page.get_by_test_id("log-in").click()
        expect(page.get_by_test_id("error")).to_contain_text("This key is not known here.")
        page.get_by_label("Your key").fill(ann)
        page.get_by_test_id("log-in").click()
        expect(page.get_by_test_id("entrance")).to_have_count(0)
        assert page.evaluate("document.cookie") == ""

        expect(page.get_by_test_id("composer")).to_be_visible()
        page.get_by_test_id("knowledge-open").click()
        page.get_by_test_id("base-new").click()
        page.get_by_label("Name", exact=True).fill("Prices")
        page.get_by_test_id("save").click()
        expect(page.get_by_test_id("documents")).to_contain_text("No documents yet.")
        page.get_by_test_id("base-access").click()
        access = page.get_by_test_id("access")
        expect(access).to_contain_text("You alone read it.")
        choose(access.get_by_label("Who"), "Bob")
        page.get_by_test_id("grant-add").click()
        expect(access.get_by_label("Access of Bob")).to_have_attribute("data-value", "restricted")
        choose(access.get_by_label("Who"), "Staff (group)")
        choose(access.get_by_label("Level"), "full: everything")
        page.get_by_test_id("grant-add").click()
        expect(access.get_by_label("Access of Staff")).to_have_attribute("data-value", "full")
        choose(access.get_by_label("Access of Bob"), "none: no access, even if a group has some")
        expect(access.get_by_label("Access of Bob")).to_have_attribute("data-value", "none")
        access.get_by_label("Remove Staff").click()
        expect(page.get_by_test_id("grant")).to_have_count(1)

        page.get_by_test_id("admin-open").click()
        page.get_by_test_id("admin-users").click()
        page.get_by_label("New user").fill("Carl")
        page.get_by_test_id("add-user").click()
        expect(page.get_by_test_id("secret")).to_contain_text("lam_")
        expect(page.get_by_test_id("user")).to_have_count(3)
        page.get_by_label("Disable Carl").click()
        expect(page.get_by_label("Enable Carl")).to_be_visible()
        page.get_by_test_id("admin-groups").click()
        page.get_by_label("Add to Staff").click()
        page.get_by_role("option", name="Bob").click()
        expect(page.get_by_test_id("member")).to_contain_text("Bob")
        page.get_by_test_id("admin-audit").click()
        expect(page.get_by_test_id("audit-entry")).to_have_count(4)
        expect(page.get_by_test_id("audit")).to_contain_text("Bob: restricted → none on a base of Ann")
        choose(page.get_by_label("What", exact=True), "Members of groups")
        expect(page.get_by_test_id("audit-entry")).to_contain_text("Bob put into Staff")

        page.keyboard.press("Control+,")
        page.get_by_label("New key").fill("laptop")
        page.get_by_test_id("create-key").click()
        expect(page.get_by_test_id("secret")).to_contain_text("lam_")
        expect(page.get_by_test_id("key")).to_have_count(2)
        page.get_by_test_id("log-out").click()
        expect(page.get_by_label("Your key")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Your key")).to_be_visible()
