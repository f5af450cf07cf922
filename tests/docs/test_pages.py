"""The pages that are made from the code are up to date, every name in the API page is a route, and every link of every
Markdown file leads somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
from fastapi.routing import APIRoute

from lamella.server.web import ROUTERS

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent


def _script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = _script(DOCS / "generate.py")
SITE = _script(DOCS / "site.py")


def _markdown() -> list[Path]:
    """Every Markdown file of the repository, but for the prompts, which models read."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = listed.stdout.splitlines() if listed.returncode == 0 else []
    found = [ROOT / name for name in names] or [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    return sorted(page for page in found if page.is_file() and "prompts" not in page.parts)


@pytest.mark.parametrize(
    "name",
    ["settings.md", "packets.md", "execution-request.md", "simulator-options.md", "model-prices.md", "python.md"],
)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert len(GENERATE.PAGES) == 6
    made = GENERATE.PAGES[f"reference/{name}"]()
    assert (DOCS / "reference" / name).read_text("utf-8") == made, "run: python docs/generate.py"


def test_the_types_of_the_page_are_up_to_date() -> None:
    script = _script(ROOT / "webtypes.py")
    assert script.OBJECTS.read_text("utf-8") == script.types(), "run: python webbuild.py --types"


def test_the_api_page_names_every_route() -> None:
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    missing = [
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and route.path.removeprefix("/api/v1") not in page
    ]
    assert missing == []


def test_decisions_are_numbered_from_1_without_a_gap_and_say_their_number() -> None:
    pages = sorted(page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md")
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    titles = [page.read_text("utf-8").partition(".")[0] for page in pages]
    assert titles == [f"# {number}" for number in range(1, len(pages) + 1)]


def test_the_index_of_decisions_has_each_of_them_once_by_its_title() -> None:
    pages = [page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md"]
    lines = [f"- [{page.read_text('utf-8').splitlines()[0].removeprefix('# ')}]({page.name})" for page in pages]
    index = (DOCS / "decisions" / "README.md").read_text("utf-8").splitlines()
    assert sorted(line for line in index if line.startswith("- ")) == sorted(lines)


def test_every_decision_says_what_it_costs() -> None:
    pages = [page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md"]
    assert [page.name for page in pages if "**Cost.**" not in page.read_text("utf-8")] == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.parent.name != "decisions"]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def test_every_relative_link_and_anchor_leads_somewhere() -> None:
    parser = SITE.parser()
    parsed = {page: parser.parse(page.read_text("utf-8")) for page in _markdown()}
    anchors = {page: set(SITE.anchored(tokens)) for page, tokens in parsed.items()}
    assert len(parsed) > 50
    broken = []
    for page, tokens in parsed.items():
        for part, attribute in SITE.linked(tokens):
            address = str(part.attrs[attribute])
            path, _, anchor = address.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if SITE.external(address):
                continue
            if not target.exists() or (anchor and anchor not in anchors.get(target, set())):
                broken.append((page.relative_to(ROOT).as_posix(), address))
    assert broken == []


def test_pages_that_code_names_exist() -> None:
    """An error that says "see docs/reference/simulator.md" names a page that is there."""
    sources = [path for folder in ("src", "bench", "tests") for path in (ROOT / folder).rglob("*.py")]
    named = {
        (source.relative_to(ROOT).as_posix(), name)
        for source in sources
        for name in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", source.read_text("utf-8"))
    }
    assert named
    assert sorted((source, name) for source, name in named if not (ROOT / name).exists()) == []


def test_source_files_that_pages_name_exist() -> None:
    """`sessions/idle.py` in a page is the end of the path of a file of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode != 0:
        pytest.skip("needs git")
    files = [f"/{name}" for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    named = {
        (page.relative_to(ROOT).as_posix(), name)
        for page in _markdown()
        for name in re.findall(r"`([\w./-]+\.(?:py|tsx?|sql|sh))`", page.read_text("utf-8"))
        if "NAME" not in name
    }
    assert len(named) > 50
    assert sorted((page, name) for page, name in named if not any(file.endswith(f"/{name}") for file in files)) == []


def test_the_site_has_every_page_and_its_links_lead_to_files_of_the_site(tmp_path: Path) -> None:
    SITE.Site(tmp_path).build()
    pages = {page: page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert (tmp_path / "index.html") in pages
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    broken = []
    for page, text in pages.items():
        main = re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
        for address in re.findall(r'(?:href|src)="([^"]+)"', main):
            path, _, anchor = address.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if SITE.external(address):
                continue
            if not target.is_file() or (anchor and f'id="{anchor}"' not in target.read_text("utf-8")):
                broken.append((page.relative_to(tmp_path).as_posix(), address))
    assert broken == []
    assert not re.search(
        r"(?:src|@import|<link)[^>]*https?:",
        "".join(re.sub(r"<pre>.*?</pre>", "", x, flags=re.DOTALL) for x in pages.values()),
    )


def test_the_clients_that_run_in_tests_stand_in_a_table_with_their_versions() -> None:
    rows = [row for row in (DOCS / "how-to" / "clients.md").read_text("utf-8").splitlines() if row.startswith("| [")]
    table = "\n".join(rows)
    for name, client in tomllib.loads((DOCS.parent / "tests" / "clients" / "versions.toml").read_text()).items():
        [version] = re.findall(r"(?:@|==)([\d.]+)$", (client.get("npm") or client["pip"])[0])
        assert version in table, f"{name} {version} is not in the table of clients"
