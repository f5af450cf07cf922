"""`lamella-simulator` alone: its wheel, installed into an empty environment, serves without `lamella`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
PROJECT = Path(__file__).parents[2] / "src" / "lamella_simulator"
USED = """
import importlib.util, json, urllib.request
from lamella_simulator import simulated

assert importlib.util.find_spec("lamella") is None
body = {"model": "claude-opus-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}],
        "system": [{"type": "text", "text": "Close the valve. " * 400, "cache_control": {"type": "ephemeral"}}]}
with simulated() as provider:
    for _ in range(2):
        headers = {"x-api-key": provider.key, "content-type": "application/json"}
        request = urllib.request.Request(f"{provider.url}/v1/messages", json.dumps(body).encode(), headers)
        assert json.load(urllib.request.urlopen(request))["type"] == "message"
first, second = provider.requests
assert second.tokens_read == first.tokens_written > 1_000
assert 0 < provider.cost < 0.02
"""


def ran(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder of its own, without the paths of this environment."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the wheel and what it requires, and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    probe = ran(*pip, "download", "--no-deps", "--dest", folder / "probe", "hatchling>=1.27", cwd=folder)
    if probe.returncode:
        pytest.skip("without pip and a package index no wheel can be built")
    built = ran(*pip, "wheel", "--no-deps", "--wheel-dir", folder, PROJECT, cwd=folder)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("lamella_simulator-*.whl")
    venv.create(folder / "venv", with_pip=True)
    place = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    installed = ran(place / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    assert installed.returncode == 0, installed.stderr
    return place


def test_it_serves_without_lamella(environment: Path, tmp_path: Path) -> None:
    used = ran(environment / "python", "-c", USED, cwd=tmp_path)
    assert used.returncode == 0, used.stderr


def test_its_command_announces_its_address(environment: Path) -> None:
    command = [str(environment / "lamella-simulator"), "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["simulator"].startswith("http://127.0.0.1:")
        process.terminate()
