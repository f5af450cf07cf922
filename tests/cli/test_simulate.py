"""`lamella simulate`: the simulator as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys

import httpx2
import pytest

from lamella.cli import main


def test_it_says_where_it_is_and_answers() -> None:
    command = [sys.executable, "-c", "from lamella.cli import main; main()", "simulate", "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["simulator"]
        answer = httpx2.get(f"{url}/v1/models", headers={"authorization": "Bearer any"}, timeout=60, trust_env=False)
        assert "gpt-6.1-terra" in {model["id"] for model in answer.json()["data"]}
        process.stdin.close()
        assert process.wait(60) == 0


def test_an_option_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["lamella", "simulate", "--option", "nowhere=1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "no such option: nowhere" in capsys.readouterr().err
