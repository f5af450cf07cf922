"""The pages that are made from the code are up to date, and every name in the API page is a route."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from fastapi.routing import APIRoute

from lamella.server.web import ROUTERS

DOCS = Path(__file__).parents[2] / "docs"


def _generator() -> ModuleType:
    return _script(DOCS / "generate.py")


def _script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings.md", "packets.md", "execution-request.md", "simulator-options.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    made = _generator().PAGES[name]()
    assert (DOCS / name).read_text("utf-8") == made, "run: python docs/generate.py"


def test_the_types_of_the_page_are_up_to_date() -> None:
    script = _script(DOCS.parent / "webtypes.py")
    assert script.OBJECTS.read_text("utf-8") == script.types(), "run: python webbuild.py --types"


def test_the_api_page_names_every_route() -> None:
    page = (DOCS / "api.md").read_text("utf-8")
    missing = [
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and route.path.removeprefix("/api/v1") not in page
    ]
    assert missing == []


def test_every_decision_has_a_number_of_its_own_and_says_it() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert len(set(numbers)) == len(numbers)
    titles = [page.read_text("utf-8").partition(".")[0] for page in pages]
    assert titles == [f"# {number}" for number in numbers]


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        (page.name, link)
        for page in (*DOCS.glob("*.md"), *(DOCS / "decisions").glob("*.md"), DOCS.parent / "README.md")
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []
