"""The simulator stands alone: it judges the engine, so it may not share a line with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lamella_simulator

SOURCES = sorted(Path(lamella_simulator.__file__).parent.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_nothing_of_the_engine_is_imported() -> None:
    names = {name.split(".")[0] for path in SOURCES for name in imported(path)}
    assert "lamella_simulator" in names
    assert not names & {"lamella", "lamella_lab"}


def test_no_vendor_sdk_is_imported() -> None:
    names = {name.split(".")[0] for path in SOURCES for name in imported(path)}
    assert not names & {"anthropic", "openai"}


def test_files_and_functions_stay_small() -> None:
    for path in SOURCES:
        source = path.read_text()
        assert source.count("\n") <= 400, path
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                assert node.end_lineno - node.lineno < 50, f"{path}: {node.name}"
