"""The wheel with its page, installed from the pins into an empty environment of every Python that is found here.

A Python of 3.11 to 3.14 that is not found, or for which the pinned packages can't be installed, is skipped by name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lamella.server.testing import ServerClient
from server.processes import started

pytestmark = [pytest.mark.long, pytest.mark.anyio]

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOLD = "import ensurepip, sqlite3, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"
MINUTES = 15
"""The most that an installation may take on a machine that has a lot to do."""

FACE = """
import lamella
model = lamella.ScriptedModel([lamella.saying("It is 5.")], lamella.facts("claude-opus-5-5"))
print(lamella.window(model, lamella.AgentTurn("What is 2 + 3?", system="You are a calculator.")).letters)
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Environment:
    """An environment that has the wheel and what it requires; commands run in an empty folder."""

    bin: Path
    empty: Path

    def run(self, *command: str) -> str:
        """The output of a program of the environment."""
        done = ran(self.bin / command[0], *command[1:], cwd=self.empty)
        assert done.returncode == 0, done.stderr
        return done.stdout


def ran(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command without the paths of this environment."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=MINUTES * 60, check=False
    )


def python_of(version: str, folder: Path) -> Path:
    """An interpreter of this version that can make an environment; skips the test if there is none."""
    named = [shutil.which(f"python{version}"), sys.executable]
    kept = [Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"]
    below = sorted(python for place in kept for python in place.glob(f"*{version}*/bin/python{version}"))
    for python in (*(Path(name) for name in named if name), *below, Path(f"/usr/bin/python{version}")):
        try:
            if ran(python, "-c", TOLD, cwd=folder).stdout.strip() == version:
                return python
        except OSError:
            continue
    pytest.skip(f"Python {version} is not found here, or lacks venv, ssl or sqlite3")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this repository."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    if ran(*pip, "download", "--no-deps", "--dest", folder / "probe", "hatchling>=1.27", cwd=folder).returncode:
        pytest.skip("without pip and a package index no wheel can be built")
    built = ran(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stderr
    [made] = folder.glob("lamella-*.whl")
    return made


@pytest.fixture(scope="module", params=VERSIONS)
def environment(
    wheel: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """One for each Python; removed afterwards, because each has hundreds of megabytes."""
    folder = tmp_path_factory.mktemp("installed")
    python = python_of(request.param, folder)
    made = ran(python, "-m", "venv", folder / "venv", cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "empty").mkdir()
    bin = folder / "venv" / "bin"
    constraints = ROOT / "constraints.txt"
    installed = ran(bin / "python", "-m", "pip", "install", "--quiet", "-c", constraints, wheel, cwd=folder)
    if installed.returncode:
        why = (installed.stderr.strip().splitlines() or ["no reason given"])[-1]
        own = request.param == f"{sys.version_info[0]}.{sys.version_info[1]}"
        (pytest.fail if own else pytest.skip)(f"the pins can't be installed for Python {request.param}: {why}")
    yield Environment(bin, folder / "empty")
    shutil.rmtree(folder, ignore_errors=True)


def test_the_package_is_imported_and_the_program_says_what_it_can(environment: Environment) -> None:
    assert environment.run("python", "-c", FACE).strip() == "S U1"
    assert "serve" in environment.run("python", "-m", "lamella", "--help")
    assert "simulat" in environment.run("lamella", "simulate", "--help").lower()


async def test_it_serves_the_page_and_answers(environment: Environment) -> None:
    command = [str(environment.bin / "lamella"), "serve", "--port", "0", "--data", str(environment.empty / "data")]
    async with started(*command, LAMELLA_TITLES="false") as server:
        await answers(server.client)
        assert await server.terminate() == 0


async def answers(client: ServerClient) -> None:
    page = await client.http.get("/")
    assert page.status_code == 200
    assert '<div id="root">' in page.text
    [script] = [piece.split('"')[0] for piece in page.text.split('src="')[1:] if ".js" in piece.split('"')[0]]
    assert (await client.http.get(script)).headers["content-type"].startswith("text/javascript")
    packets = await client.send(await client.conversation(), "What is a tide?")
    assert packets[-1]["status"] == "finished"
    assert "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")
