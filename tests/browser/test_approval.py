"""Calls that wait for the user, on the page: approved, denied with a reason, stopped, found again after a reload."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from .servers import Model, Server, Watched, running
from .steps import answers, ask, part

pytestmark = [pytest.mark.browser, pytest.mark.long]

TOYS = Path(__file__).parents[1] / "tools" / "mcp" / "toy_server.py"


@pytest.fixture(scope="module")
def shop(simulator: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an MCP server whose tools ask first."""
    folder = tmp_path_factory.mktemp("shop")
    servers = folder / "servers.json"
    toy = {"command": sys.executable, "args": [str(TOYS)], "approval": ["add"]}
    servers.write_text(json.dumps({"mcpServers": {"toy": toy}}))
    environment = {
        "ANTHROPIC_API_KEY": "approval",
        "ANTHROPIC_BASE_URL": simulator.url,
        "LAMELLA_MCP_SERVERS": str(servers),
    }
    with running(Server(folder / "data", environment)) as server:
        yield server


@pytest.fixture
def calling(model: Model) -> Iterator[Model]:
    """A model whose next answer is a call of `add`."""
    call = {"name": "toy__add", "id": "toolu_add", "arguments": {"a": 2, "b": 40}}
    httpx2.post(f"{model.url}/_sim/replies", json={"add": {"tool_calls": [call]}}).raise_for_status()
    script(model, "add")
    yield model
    script(model, None)


def script(model: Model, reply: str | None) -> None:
    httpx2.post(f"{model.url}/_sim/settings", json={"default_reply": reply}).raise_for_status()


def waiting(page: Page, server: Server, model: Model) -> None:
    """A conversation whose call waits; the model goes on without another."""
    page.goto(server.url)
    ask(page, "What is two and forty?")
    expect(part(page, "tool-call")).to_have_attribute("data-state", "waiting")
    script(model, None)


def test_a_call_waits_over_a_reload_and_runs_once_it_is_approved(
    page: Page, shop: Server, calling: Model, watched: Watched
) -> None:
    waiting(page, shop, calling)
    page.reload()
    card = part(page, "tool-call")
    expect(card).to_have_attribute("data-state", "waiting")
    expect(card).to_contain_text("toy__add")
    expect(card.locator("pre")).to_contain_text('"b": 40')
    part(page, "approve").focus()
    page.keyboard.press("Enter")
    expect(card).to_have_attribute("data-state", "finished")
    expect(part(page, "approval")).to_have_count(0)
    expect(answers(page)).to_have_count(1)
    expect(card.locator("summary")).to_contain_text("s")
    card.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(card.locator("pre").last).to_contain_text("42")
    page.reload()
    expect(card).to_have_attribute("data-state", "finished")
    assert watched.complaints == []


def test_a_denial_tells_the_model_why(page: Page, shop: Server, calling: Model) -> None:
    waiting(page, shop, calling)
    reason = part(page, "deny-reason")
    reason.fill("Count yourself.")
    page.keyboard.press("Escape")
    expect(part(page, "tool-call")).to_have_attribute("data-state", "waiting")
    page.keyboard.press("Enter")
    card = part(page, "tool-call")
    expect(card).to_have_attribute("data-state", "denied")
    expect(answers(page)).to_have_count(1)
    card.locator("summary").click()
    expect(card.locator("pre").last).to_contain_text("did not approve this call of toy__add: Count yourself.")


def test_a_stopped_turn_shows_that_the_call_did_not_run(page: Page, shop: Server, calling: Model) -> None:
    waiting(page, shop, calling)
    part(page, "composer").focus()
    page.keyboard.press("Escape")
    expect(answers(page, "stopped")).to_have_count(1)
    expect(part(page, "tool-call")).to_have_attribute("data-state", "not-run")
    expect(part(page, "tool-call")).to_contain_text("not run")
    expect(part(page, "approval")).to_have_count(0)


def test_an_answer_that_somebody_else_gave_is_shown(page: Page, shop: Server, calling: Model) -> None:
    waiting(page, shop, calling)
    turn = part(page, "turn").get_attribute("data-turn")
    with httpx2.stream("GET", f"{shop.url}/api/v1/turns/{turn}/events") as events:
        packets = (json.loads(line[6:]) for line in events.iter_lines() if line.startswith("data: "))
        call = next(packet["call_id"] for packet in packets if packet["type"] == "tool.approval")
    path = f"{shop.url}/api/v1/turns/{turn}/calls/{call}/approval"
    httpx2.post(path, json={"approved": True}).raise_for_status()
    expect(part(page, "tool-call")).to_have_attribute("data-state", "finished")
    expect(part(page, "approval")).to_have_count(0)
