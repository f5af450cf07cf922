"""The recipe of docs/reference/simulator.md runs as it stands there, and so do its curl lines."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "simulator.md").read_text("utf-8")


def test_the_recipe_runs() -> None:
    (recipe,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ran = subprocess.run([sys.executable, "-c", recipe], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr


def curls() -> list[list[str]]:
    return [shlex.split(line) for line in PAGE.splitlines() if line.startswith("curl ")]


@pytest.mark.parametrize("words", curls(), ids=lambda words: re.sub(r".*_sim/", "", words[2]))
def test_a_curl_line_is_taken(address: str, words: list[str]) -> None:
    """What curl would send: a body makes it a POST."""
    target = next(word for word in words if "_sim/" in word).partition(":9999")[2]
    body = words[words.index("-d") + 1].encode() if "-d" in words else b"" if "-X" in words else None
    with urllib.request.urlopen(f"{address}{target}", body) as answer:
        assert json.load(answer)
