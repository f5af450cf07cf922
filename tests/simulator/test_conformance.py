"""The list of rules in docs/reference/simulator.md: its tests exist, and it has each fault and each option."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from lamella_simulator.app import create_app
from lamella_simulator.replies import Fault, FaultKind, Reply
from lamella_simulator.settings import Settings

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "reference" / "simulator.md").read_text("utf-8")
SECTIONS = ("### Wires and rules", "### Faults", "### Examples of the vendors' pages")


def section(title: str) -> str:
    return PAGE.partition(f"{title}\n")[2].partition("\n#")[0]


def rows(title: str) -> list[tuple[str, str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [(rule.strip(), last.strip()) for rule, last in (line.strip("| ").split(" | ") for line in lines)]


def names_in(path: Path) -> set[str]:
    found = ast.parse(path.read_text("utf-8")).body
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_rule_names_tests_that_exist() -> None:
    known = {f"{path.name}::{name}" for path in HERE.glob("test_*.py") for name in names_in(path)}
    listed = [(rule, re.findall(r"`(test_\w+\.py::test_\w+)`", proof)) for t in SECTIONS for rule, proof in rows(t)]
    assert len(listed) > 50
    assert [rule for rule, proofs in listed if not proofs] == []
    assert [(rule, proof) for rule, proofs in listed for proof in proofs if proof not in known] == []
    assert len({rule for rule, _ in listed}) == len(listed)


def test_every_fault_is_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", " ".join(fault for fault, _ in rows("### Faults"))))
    assert set(get_args(FaultKind)) - listed == set()


def test_every_field_of_a_script_is_explained() -> None:
    said = section("## What it answers")
    for struct in (Reply, Fault):
        assert [name for name in struct.__struct_fields__ if f"`{name}`" not in said] == []


def test_every_open_question_names_an_option_or_a_call() -> None:
    options = {field.name for field in fields(Settings)}
    answers = [name for _, last in rows("## What the vendors leave open") for name in re.findall(r"`([^`]+)`", last)]
    assert [name for name in answers if name not in options and not name.startswith("POST /_sim/")] == []


def test_every_endpoint_is_named() -> None:
    paths = [getattr(route, "path", "") for route in create_app().routes]
    assert [path for path in paths if f"{path}`" not in PAGE] == []
