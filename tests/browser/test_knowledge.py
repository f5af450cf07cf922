"""A knowledge base on the page: documents and how far they are, search with its scores, and where it is searched."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from .servers import Server, Watched
from .steps import answers, ask, choose, part

pytestmark = [pytest.mark.browser, pytest.mark.long]


def test_a_base_is_filled_searched_and_asked(page: Page, demo: Server, tmp_path: Path, watched: Watched) -> None:
    mast, pump, broken = tmp_path / "mast.md", tmp_path / "pump.md", tmp_path / "scan.pdf"
    mast.write_text("# Mooring\n\nThe mooring mast of Recife is 62 m high.\n")
    pump.write_text("# Service\n\nThe pump is serviced every 400 hours.\n")
    broken.write_bytes(b"%PDF-1.7\nnothing")
    page.goto(demo.url)
    part(page, "knowledge-open").click()
    part(page, "base-new").click()
    form = part(page, "base-form")
    form.get_by_label("Name", exact=True).fill("Airships")
    form.get_by_label("Hint", exact=True).fill("Ask about masts.")
    part(form, "save").click()

    documents = part(page, "document")
    part(page, "documents-input").set_input_files([mast, pump, broken])
    expect(documents).to_have_count(3)
    for name in ("mast.md", "pump.md"):
        expect(documents.filter(has_text=name)).to_have_attribute("data-state", "ready")
    failed = documents.filter(has_text="scan.pdf")
    expect(failed).to_have_attribute("data-state", "failed")
    expect(failed).to_contain_text("could not be read")
    expect(part(page, "documents-progress")).to_contain_text("3 documents")
    failed.get_by_label("Remove scan.pdf").click()
    part(page, "confirm-action").click()
    expect(documents).to_have_count(2)
    documents.filter(has_text="pump.md").get_by_label("Read pump.md again").click()
    expect(documents.filter(has_text="pump.md")).to_contain_text("ready, 1 passage")

    part(page, "base-search").click()
    page.get_by_label("What to look for").fill("How high is the mast?")
    part(page, "search-try").click()
    first = part(page, "search-hit").first
    expect(first).to_contain_text("mast.md")
    expect(part(first, "score-fused")).to_have_text(re.compile(r"0\.\d{3}|1\.000"))
    expect(part(first, "score-words")).to_have_text(re.compile(r"\d+\.\d{3}"))
    expect(part(page, "search-about")).to_contain_text("embedder lexical")

    part(page, "base-restricted").click()
    part(page, "restricted-preview").click()
    page.get_by_label("Questions").fill("How high is the mast?")
    part(page, "restricted-try").click()
    expect(part(page, "restricted-safe")).to_contain_text("Refused: no second model is configured")
    expect(part(page, "restricted-passage")).to_have_count(2)

    part(page, "base-about").click()
    expect(part(page, "base-form").get_by_label("Hint", exact=True)).to_have_value("Ask about masts.")
    part(page, "base-form").get_by_label("Topics").fill("masts, pumps")
    part(part(page, "base-form"), "save").click()
    expect(part(page, "base-item")).to_contain_text("Airships")

    part(page, "agents-open").click()
    part(page, "agent-new").click()
    form = part(page, "agent-form")
    form.get_by_label("Name", exact=True).fill("Rigger")
    form.get_by_label("Prompt", exact=True).fill("Know the masts.")
    part(form, "agent-knowledge").get_by_label("Airships").check()
    part(form, "save").click()
    part(page, "agent-item").click()
    expect(part(page, "agent-knowledge").get_by_label("Airships")).to_be_checked()
    part(page, "new-conversation").click()

    knowledge = part(page, "choose-knowledge")
    knowledge.locator("summary").click()
    knowledge.get_by_label("Airships").check()
    expect(knowledge.locator("summary")).to_contain_text("Airships")
    page.keyboard.press("Escape")
    ask(page, "How high is the mooring mast of Recife?")
    expect(answers(page)).to_have_count(1)
    expect(part(page, "choose-knowledge").locator("summary")).to_contain_text("Airships")

    part(page, "knowledge-open").click()
    part(page, "base-item").click()
    part(page, "base-used").click()
    expect(part(page, "searchers")).to_contain_text("Rigger")
    expect(part(page, "searchers")).to_contain_text("How high is the mooring mast")
    assert watched.complaints == []


def test_a_project_says_which_files_a_model_searches(page: Page, server: Server, watched: Watched) -> None:
    with httpx2.Client(base_url=f"{server.url}/api/v1", trust_env=False, timeout=60) as http:
        texts = {"note.txt": "The mast is 62 m high.", "book.txt": "Words that fill a window. " * 50_000}
        ids = [http.post("/files", files={"file": (name, text)}).json()["id"] for name, text in texts.items()]
        http.post("/projects", json={"name": "Masts", "file_ids": ids}).raise_for_status()
    page.goto(server.url)
    part(page, "projects-open").click()
    part(page, "project-item").click()
    book = part(part(page, "project-file").filter(has_text="book.txt"), "place")
    note = part(part(page, "project-file").filter(has_text="note.txt"), "place")
    for model, where in (
        ("claude-haiku-4-5", "searched"),
        ("claude-opus-5-5", "in context"),
        ("claude-haiku-4-5", "searched"),
    ):
        choose(part(page, "places-model"), model)
        expect(book).to_have_text(where)
        expect(note).to_have_text("in context")
    assert watched.complaints == []
