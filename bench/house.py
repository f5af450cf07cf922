"""Counts what makes the repository easy or hard to live in, from its syntax trees, and prints the aims beside it.

    python bench/house.py            the table
    python bench/house.py --list     with what each count is made of

The simulator (`src/lamella_simulator`), traces and their replay (`src/lamella_lab`) are not counted; the export of a
conversation, which the server answers with, is.
What each row says:

- *one-caller modules*: under 100 lines, imported by one module only, which is in the same package.
- *class names twice*: a reader who meets `Document` cannot know which one is meant.
- *Protocols with one implementation*: an interface that nobody needs. A class implements a Protocol when it has all of
  its methods or names it as a base; a fake in tests counts. A Protocol that is only `__call__` is the type of a
  function, a private one describes an object of an untyped library: they are not counted.
- *lazy imports*: import statements inside functions, which hide an arrow.
- *absent papers*: references such as `DESIGN 3` to documents that the repository does not hold.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parent.parent
LEAST_LINES_OF_A_MODULE = 100
PAPERS = re.compile(
    r"\b(?:SPEC|DESIGN|PROVIDERS|DOORS|TECH|LESSONS|API|HOUSE|STYLE|PROSE)(?:\.md\b|,? [A-Z]?\d+(?:\.\d+)*\b)"
)


@dataclass(frozen=True, slots=True)
class Module:
    """One source file: its dotted name, text, lines and syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Row:
    """One count: what it is called, its value, the most that it may be, and what it is made of."""

    name: str
    value: int
    aim: int | None = None
    made_of: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.aim is None or self.value <= self.aim


def modules(root: Path, package: str) -> list[Module]:
    """Every module of a package under `root`, in the order of its names."""
    found = []
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text()
        found.append(Module(name, path, text, ast.parse(text)))
    return found


def imported(module: Module) -> Iterator[str]:
    """The dotted names that a module's import statements bring, each as `a.b` and as `a.b.name`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def one_caller_modules(found: list[Module]) -> list[str]:
    importers: dict[str, set[str]] = defaultdict(set)
    packages = {one.name: one.package for one in found}
    for module in found:
        for name in imported(module):
            if name in packages and name != module.name:
                importers[name].add(module.name)
    return [
        f"{one.name} ← {next(iter(importers[one.name]))}"
        for one in found
        if one.path.name not in ("__init__.py", "__main__.py")
        and one.lines < LEAST_LINES_OF_A_MODULE
        and len(importers[one.name]) == 1
        and packages[next(iter(importers[one.name]))] == one.package
    ]


def classes(found: list[Module]) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in found:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                yield module, node


def names_twice(found: list[Module]) -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for module, node in classes(found):
        if not node.name.startswith("_"):
            places[node.name].append(module.name)
    return [f"{name}: {', '.join(at)}" for name, at in sorted(places.items()) if len(at) > 1]


def base_names(node: ast.ClassDef) -> set[str]:
    names = set()
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        names.add(inner.attr if isinstance(inner, ast.Attribute) else inner.id if isinstance(inner, ast.Name) else "")
    return names


def methods(node: ast.ClassDef) -> set[str]:
    """What a class gives: its methods, fields and properties."""
    given = set()
    for item in ast.walk(node):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            given.add(item.name)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name | ast.Attribute):
            given.add(item.target.id if isinstance(item.target, ast.Name) else item.target.attr)
        elif isinstance(item, ast.Assign):
            given.update(
                at.attr if isinstance(at, ast.Attribute) else at.id
                for at in item.targets
                if isinstance(at, ast.Attribute | ast.Name)
            )
    return given


def lonely_protocols(found: list[Module], everywhere: list[Module]) -> list[str]:
    given: dict[str, tuple[set[str], set[str]]] = {}
    protocols = {node.name: node for _, node in classes(found) if "Protocol" in base_names(node)}
    every_protocol = {node.name for _, node in classes(everywhere) if "Protocol" in base_names(node)}
    for module, node in classes(everywhere):
        if node.name not in every_protocol:
            given[f"{module.name}.{node.name}"] = (methods(node), base_names(node))

    def whole(names: set[str], bases: set[str]) -> set[str]:
        for name, (own, further) in given.items():
            if name.rpartition(".")[2] in bases:
                names = names | whole(own, further - bases)
        return names

    all_methods = {name: (whole(own, bases), bases) for name, (own, bases) in given.items()}
    lonely = []
    for name, node in sorted(protocols.items()):
        wanted = {item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
        wanted |= {
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        if wanted and wanted != {"__call__"} and not name.startswith("_"):
            by = [at for at, (own, bases) in all_methods.items() if name in bases or wanted <= own]
            if len(by) <= 1:
                lonely.append(f"{name}: {', '.join(by) or 'none'}")
    return lonely


def functions(found: list[Module]) -> list[tuple[int, str]]:
    """Each function's lines, docstring and signature included, and its place."""
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{module.name}.{node.name}")
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def lazy_imports(found: list[Module]) -> list[str]:
    return [
        f"{module.name}:{inner.lineno}"
        for module in found
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def absent_papers(root: Path) -> list[str]:
    """Places in code, tests, docs and the page that name a paper which is not in the repository."""
    held = {path.name for path in root.rglob("*.md") if "node_modules" not in path.parts and ".venv" not in path.parts}
    found = []
    for folder in ("src", "tests", "bench", "docs", "examples", "web/src"):
        for path in sorted((root / folder).rglob("*")):
            if (
                path.suffix in {".py", ".md", ".ts", ".tsx", ".css"}
                and path != Path(__file__)
                and "page" not in path.parts
            ):
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    found += [
                        f"{path.relative_to(root)}:{number} {hit}" for hit in PAPERS.findall(line) if hit not in held
                    ]
    return found


def percentile(values: list[int], share: int) -> int:
    return round(quantiles(values, n=100, method="inclusive")[share - 1])


def rows(root: Path = ROOT) -> list[Row]:
    found = modules(root / "src", "lamella") + modules(root / "src", "lamella_lab/export")
    everywhere = [*found, *(one for folder in ("tests", "bench", "examples") for one in modules(root, folder))]
    everywhere += modules(root / "src", "lamella_lab")
    sizes = [one.lines for one in found if one.lines > 1]
    lengths = functions(found)
    long = [f"{name} ({lines})" for lines, name in sorted(lengths, reverse=True) if lines > 50]
    lonely, twice, one_caller = lonely_protocols(found, everywhere), names_twice(found), one_caller_modules(found)
    lazy, papers = lazy_imports(found), absent_papers(root)
    by_size = sorted(found, key=lambda one: -one.lines)
    return [
        Row("files", len(found), 340, [f"{package} {count}" for package, count in per_package(found)]),
        Row("lines", sum(one.lines for one in found), 45_000),
        Row("lines of a file, median", round(median(sizes)), None),
        Row(
            "lines of a file, 95 of 100",
            percentile(sizes, 95),
            450,
            [f"{one.name} ({one.lines})" for one in by_size[:10]],
        ),
        Row("lines of a function, median", round(median([lines for lines, _ in lengths])), 7),
        Row("lines of a function, 95 of 100", percentile([lines for lines, _ in lengths], 95), 23),
        Row("functions over 50 lines", len(long), None, long),
        Row("one-caller modules", len(one_caller), 10, one_caller),
        Row("class names twice", len(twice), 0, twice),
        Row("Protocols with one implementation", len(lonely), 0, lonely),
        Row("lazy imports", len(lazy), 0, lazy),
        Row("absent papers", len(papers), 0, papers),
    ]


def per_package(found: list[Module]) -> list[tuple[str, int]]:
    counts: dict[str, int] = defaultdict(int)
    for one in found:
        counts[
            ".".join(one.name.split(".")[:2])
            if one.name.count(".") > 1 or one.path.name == "__init__.py"
            else "lamella"
        ] += 1
    return sorted(counts.items(), key=lambda item: -item[1])


def main() -> None:
    for row in rows():
        aim = "" if row.aim is None else f"≤ {row.aim:,}"
        print(f"{row.name:36}{row.value:8,}  {aim:10}{'' if row.holds else 'missed'}")
        if "--list" in sys.argv[1:]:
            for line in row.made_of:
                print(f"    {line}")


if __name__ == "__main__":
    main()
