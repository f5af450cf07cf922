"""Builds the documentation as plain HTML: `python docs/site.py OUT`, then open OUT/index.html.

Every Markdown file under docs/ becomes a page: `docs/how-to/tools.md` is `how-to/tools.html`, a README is the
`index.html` of its folder. A file of the repository that a page links to becomes a page under `repository/`: the site
needs no other server. Anchors are those of GitHub: `## Queue and commands` is `#queue-and-commands`.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
SECTIONS = ("tutorial", "how-to", "reference", "explanation", "decisions")
STYLE = """
body { margin: 0 auto; max-width: 74rem; padding: 1rem; font: 16px/1.55 system-ui, sans-serif; display: grid;
  grid-template-columns: 15rem minmax(0, 1fr); gap: 2.5rem; color: #1b1f24; background: #fff }
nav { font-size: .875rem } nav ul { list-style: none; padding: 0 } nav summary { cursor: pointer; font-weight: 600 }
pre { background: #f4f5f7; padding: .75rem; overflow-x: auto } code { font-size: .9em } img { max-width: 100% }
table { border-collapse: collapse; display: block; overflow-x: auto } th, td { border: 1px solid #d5d9de;
  padding: .3rem .6rem; text-align: left; vertical-align: top } a { color: #0b57a4 }
@media (max-width: 48rem) { body { grid-template-columns: minmax(0, 1fr) } nav { order: 2 } }
@media (prefers-color-scheme: dark) { body { color: #e4e6ea; background: #16181c } pre { background: #22262c }
  th, td { border-color: #3a4048 } a { color: #7db8f5 } }
"""


def parser() -> MarkdownIt:
    """CommonMark with tables."""
    return MarkdownIt("commonmark").enable("table")


def slug(heading: str) -> str:
    """GitHub's anchor of a heading: "What it can't do" is `what-it-cant-do`."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchored(tokens: list[Token]) -> list[str]:
    """The anchors of a page in order, written to its headings as `id`; a repeated heading gets `-1`, `-2` …"""
    found: list[str] = []
    for opening, inside in pairwise(tokens):
        if opening.type == "heading_open":
            name = slug("".join(part.content for part in inside.children or [] if part.type in ("text", "code_inline")))
            repeated = sum(1 for other in found if re.fullmatch(re.escape(name) + r"(-\d+)?", other))
            found.append(f"{name}-{repeated}" if repeated else name)
            opening.attrs["id"] = found[-1]
    return found


def linked(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Every link and picture of a page with the attribute that holds its address."""
    for token in tokens:
        for part in token.children or []:
            if part.type in ("link_open", "image"):
                yield part, "href" if part.type == "link_open" else "src"


def external(address: str) -> bool:
    """Whether an address leaves the repository: `https://…`, `mailto:…`."""
    return re.match(r"[a-z][a-z0-9+.-]*:", address) is not None


def title_of(page: Path) -> str:
    """The first heading of a Markdown file, without its marks; else the file's name."""
    found = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return found[1].replace("`", "") if found else page.name


class Site:
    """One build: pages that were written, and files of the repository that they need."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.pages = [DOCS / "README.md", *(page for name in SECTIONS for page in sorted((DOCS / name).glob("*.md")))]
        self.pages += [page for page in sorted(DOCS.glob("*.md")) if page not in self.pages]
        self.waiting = list(self.pages)
        self.done: set[Path] = set()

    def build(self) -> None:
        """Write every page, then what they link to, until nothing is missing."""
        while self.waiting:
            source = self.waiting.pop()
            if source not in self.done:
                self.done.add(source)
                self.write(source)

    def write(self, source: Path) -> None:
        target = self.out / self.place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(self.page(source, title_of(source), self.rendered(source)), "utf-8")
        elif target.suffix != ".html":
            shutil.copyfile(source, target)
        else:
            name = source.relative_to(ROOT).as_posix()
            shown = (
                "\n".join(sorted(x.name for x in source.iterdir())) if source.is_dir() else source.read_text("utf-8")
            )
            body = f"<h1>{html.escape(name)}</h1><pre><code>{html.escape(shown)}</code></pre>"
            target.write_text(self.page(source, name, body), "utf-8")

    def place(self, source: Path) -> str:
        """Where a file of the repository stands in the site."""
        inside = source.is_relative_to(DOCS)
        name = source.relative_to(DOCS).as_posix() if inside else f"repository/{source.relative_to(ROOT).as_posix()}"
        if inside and source.name == "README.md":
            return f"{name.removesuffix('README.md')}index.html"
        if source.suffix == ".md" and inside:
            return f"{name.removesuffix('.md')}.html"
        return name if source.suffix in (".png", ".jpg", ".svg") else f"{name}.html"

    def rendered(self, source: Path) -> str:
        markdown = parser()
        tokens = markdown.parse(source.read_text("utf-8"))
        anchored(tokens)
        for part, attribute in linked(tokens):
            address = str(part.attrs[attribute])
            if not external(address) and not address.startswith("#"):
                path, _, anchor = address.partition("#")
                target = (source.parent / unquote(path)).resolve()
                self.waiting.append(target)
                part.attrs[attribute] = self.link(source, target) + (f"#{anchor}" if anchor else "")
        return str(markdown.renderer.render(tokens, markdown.options, {}))

    def link(self, source: Path, target: Path) -> str:
        return Path(os.path.relpath(self.place(target), Path(self.place(source)).parent)).as_posix()

    def page(self, source: Path, title: str, body: str) -> str:
        parts = [f'<p><a href="{self.link(source, DOCS / "README.md")}">Lamella</a></p>']
        for section in SECTIONS:
            pages = [page for page in self.pages if page.parent == DOCS / section]
            items = "".join(
                f'<li><a href="{self.link(source, page)}">{html.escape(title_of(page))}</a></li>' for page in pages
            )
            opened = " open" if source.parent == DOCS / section else ""
            parts.append(f"<details{opened}><summary>{section.capitalize()}</summary><ul>{items}</ul></details>")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width"><meta name="referrer" content="no-referrer">'
            f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
            f"<body><nav>{''.join(parts)}</nav><main>\n{body}</main></body></html>\n"
        )


def main() -> None:
    """`python docs/site.py OUT`."""
    if len(sys.argv) != 2:
        sys.exit("Usage: python docs/site.py OUT")
    Site(Path(sys.argv[1])).build()


if __name__ == "__main__":
    main()
