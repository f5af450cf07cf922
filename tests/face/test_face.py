"""`import lamella`: what it offers, what it costs, and that what a window shows is what is sent."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import lamella
from lamella.core.errors import InvalidRequest

pytestmark = pytest.mark.anyio

HEAVY = ("sqlalchemy", "fastapi", "starlette", "uvicorn", "anthropic", "openai", "alembic", "xberg", "pypdfium2")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def test_the_face_needs_no_sdk_web_framework_or_database() -> None:
    """`wrap` alone opens a database, since it records."""
    used = "import lamella; [getattr(lamella, name) for name in lamella.__all__ if name != 'wrap']"
    code = f"{used}; import sys, json; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert [name for name in HEAVY if name in loaded] == []
    code = "import lamella; lamella.wrap; import sys, json; print(json.dumps(list(sys.modules)))"
    wrapping = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert [name for name in ("fastapi", "starlette", "uvicorn", "anthropic", "openai") if name in wrapping] == []


def test_the_package_alone_loads_nothing() -> None:
    """The program and its reading children import it, and must stay light."""
    code = "import lamella, sys; print([m for m in sys.modules if m.startswith('lamella')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "['lamella']"


def test_every_name_has_a_docstring_and_a_home() -> None:
    assert set(lamella.__all__) <= set(dir(lamella))
    for name in lamella.__all__:
        value = getattr(lamella, name)
        assert name == "LAYOUTS" or inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="no attribute 'windows'"):
        lamella.windows  # noqa: B018


async def test_a_window_is_what_is_sent() -> None:
    model = lamella.ScriptedModel([lamella.saying("Twice a day.")], lamella.facts("claude-opus-5-5"))
    turn = lamella.AgentTurn("How often? " * 900, system="You know the sea. " * 900)
    shown = lamella.window(model, turn, [add])
    answer = lamella.run(model, turn, [add])
    assert [packet async for packet in answer]
    [sent] = model.requests
    assert model.body(sent) == shown.body
    assert shown.letters == "S U1"
    assert [row.letters for row in shown.rows] == ["", "S", "U1"]
    assert shown.rows[-1].owner == "user"
    assert shown.rows[1].marker == "the end of what never changes"
    assert shown.read == 0
    assert shown.written == pytest.approx(shown.tokens, abs=2)


async def test_the_next_window_reads_what_the_first_wrote() -> None:
    billed = lamella.Usage(input=7_300, cache_write_5m=7_290, output=6)
    model = lamella.ScriptedModel([lamella.saying("Twice a day.", usage=billed)], lamella.facts("claude-opus-5-5"))
    first = lamella.run(model, lamella.AgentTurn("How often? " * 900, system="You know the sea. " * 900))
    assert [packet async for packet in first]
    shown = lamella.window(model, first.then("And where?"))
    assert shown.letters == "S U1 A1 U2"
    assert shown.read > 0.9 * shown.tokens
    without = lamella.AgentTurn("And where?", system="You know the sea. " * 900)
    assert shown.cost < 0.2 * lamella.window(model, without).cost
    assert str(shown).count("\n") == len(shown.rows)


def test_a_model_that_the_table_does_not_have_is_named() -> None:
    assert lamella.facts("claude-opus-5-5-20261101").name == "claude-opus-5-5-20261101"
    with pytest.raises(InvalidRequest, match="has no 'gpt-2'"):
        lamella.facts("gpt-2")


def test_python_m_lamella_is_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lamella", "--help"]
    assert "serve" in subprocess.check_output(command, text=True, cwd=tmp_path)
