"""`lamella replay` as it is called: a line for each request, JSON, dumped bodies, and errors with exit code 2."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lamella.cli.replay  # noqa: F401 (registers the command)
from lamella.cli.failures import exit_code_of
from lamella.cli.main import cli
from lamella.context.layouts import LAYOUTS
from lamella.core.errors import LamellaError

from .program import run

LAMELLA = str(Path(sys.executable).with_name("lamella"))
TRACE = {
    "lamella_trace": 1,
    "system": "You are careful. " * 200,
    "turns": [
        {"at": "2026-03-01T09:00:00+01:00", "user": "What is it?", "steps": [{"text": "A heat pump."}]},
        {"at": "2026-03-01T09:02:00+01:00", "user": "Sure?", "steps": [{"text": "Yes."}]},
    ],
}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(TRACE))
    return path


def replayed(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, arguments)])


def test_each_request_is_a_line_then_totals_and_the_bound(trace: Path) -> None:
    result = replayed(trace)
    assert result.exit_code == 0, result.exception
    head, first, second, total, bound = result.stdout.splitlines()
    assert head.split() == ["n", "turn", "step", "total", "read", "written", "fresh", "output", "cost", "window"]
    assert re.fullmatch(r" +1 +1 +0 +\d+ +0 +\d+ +0 +\d+ +0\.\d+  S U1", first)
    assert re.fullmatch(r" +2 +2 +0 +\d+ +[1-9]\d+ +\d+ +0 +\d+ +0\.\d+  S U1 A1 U2", second)
    assert re.fullmatch(r" +2 requests( +\d+){5} +0\.\d+", total)
    assert re.fullmatch(r"cost \$0\.\d+, of it input \$0\.\d+, 1\.\d\d times the lower bound of \$0\.\d+", bound)


def test_json_and_dumped_bodies(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bodies"
    result = replayed(trace, "--json", "--dump", folder, "--layout", "lis", "--provider", "openai", "--markers", "off")
    report = json.loads(result.stdout)
    assert {r["layout"] for r in report["requests"]} == {"lis"}
    assert {r["marker_policy"] for r in report["requests"]} == {"off"}
    assert {r["model"] for r in report["requests"]} == {"gpt-6.1-terra"}
    bodies = [json.loads((folder / request["body"]).read_bytes()) for request in report["requests"]]
    assert [len(body["input"]) for body in bodies] == [2, 4]


def test_a_replay_is_compared_with_every_layout(trace: Path) -> None:
    report = json.loads(replayed(trace, "--json", "--layouts", "--markers", "off").stdout)
    costs = [row["cost"] for row in report["layouts"]]
    assert {row["layout"] for row in report["layouts"]} == set(LAYOUTS)
    assert report["cost_vs_best_layout"] == pytest.approx(report["totals"]["cost"] / min(costs), abs=1e-3)
    assert report["cost_vs_best_layout"] > 1
    *_, said = replayed(trace, "--layouts").stdout.splitlines()
    assert re.fullmatch(r"this replay: \d\.\d\d times the best of these", said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--layout", "mine"], "no layout “mine”"),
        (["--markers", "all"], "no marker policy “all”"),
        (["--provider", "acme"], "no provider “acme”"),
        (["--set", "context_budget"], "--set takes KEY=VALUE"),
        (["--set", "colour=red"], "no setting “colour”"),
        (["--set", "context_budget=7"], "context_budget can't be “7”"),
    ],
)
def test_an_option_that_cannot_be_is_said(trace: Path, options: list[str], said: str) -> None:
    error = replayed(trace, *options).exception
    assert isinstance(error, LamellaError)
    assert said in error.message
    assert error.hint is not None or "=" in error.message or "can't be" in error.message
    assert exit_code_of(error) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a trace"),
        (json.dumps(TRACE | {"colour": "red"}), "The trace: object contains unknown field `colour`"),
        (json.dumps(TRACE | {"turns": [{"at": "now"}]}), "Turn 1"),
    ],
)
def test_a_malformed_trace_is_said_with_its_path(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    error = replayed(path).exception
    assert isinstance(error, LamellaError)
    assert error.message.startswith(f"{path}: ")
    assert said in error.message
    assert exit_code_of(error) == 2


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ([{"at": "2026-03-01T09:00:00Z", "user": "/new"}], "the trace has no message, only 1 command or change"),
        ([TRACE["turns"][0] | {"stop": {"step": 0}, "steps": []}], "its message was stopped before anything was sent"),  # type: ignore[index]
    ],
)
def test_a_replay_without_a_request_says_why(tmp_path: Path, turns: list[object], why: str) -> None:
    path = tmp_path / "silent.json"
    path.write_text(json.dumps(TRACE | {"turns": turns}))
    for options in ([], ["--json"]):
        result = replayed(path, *options)
        assert result.exit_code == 1
        assert result.stderr == f"No request was made: {why}.\n"


def test_exit_codes_and_messages_of_the_program(trace: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ([str(trace), "--colour", "red"], "No such option: --colour"),
        ([str(tmp_path / "gone.json")], "gone.json can't be read: No such file"),
    ):
        done = run("replay", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
