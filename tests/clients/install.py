"""Installs the clients of versions.toml, each in an environment of its own, outside of the repository.

    python tests/clients/install.py               # all of them
    python tests/clients/install.py codex aider   # only these

They are kept in `$LAMELLA_TEST_CLIENTS`, or in the user's cache folder. What is installed already is left alone. A
client that can't be installed is named, and its tests are skipped: a registry that can't be reached fails nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

VERSIONS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("versions.toml").read_text())
SECONDS = 480
"""For so long clients are installed; what is missing then is skipped."""

AT_ONCE = 2
"""Clients that are installed beside each other."""


def folder() -> Path:
    """Where the clients are."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LAMELLA_TEST_CLIENTS") or Path(cache) / "lamella-test-clients")


def place(name: str) -> Path:
    """The environment of a client."""
    return folder() / name


def program(name: str) -> Path:
    """What is run of a client: its command, or the Node or the Python that runs a program with its libraries."""
    if "command" in VERSIONS[name]:
        return place(name) / str(VERSIONS[name]["command"])
    return Path(shutil.which("node") or "node") if "npm" in VERSIONS[name] else place(name) / "bin" / "python"


def is_installed(name: str) -> bool:
    """Whether a client is there, in the version that is wanted."""
    stamp = place(name) / "installed"
    return stamp.exists() and stamp.read_text() == str(VERSIONS[name]) and program(name).exists()


NEEDS = """
import re, sys
from importlib.metadata import requires
wanted = [one.partition(";") for one in requires(sys.argv[1])]
names = {line: re.split("[^A-Za-z0-9._-]", line)[0] for line, _, when in wanted if "extra" not in when}
print("\\n".join(line for line, name in names.items() if name not in sys.argv[2:]))
"""
"""Prints what a program requires, but for the packages that are named: those that it runs without."""


def steps(name: str) -> list[list[str]]:
    """The commands that install a client; `{needs}` stands for what the one before has printed."""
    wanted, where = VERSIONS[name], str(place(name))
    if "npm" in wanted:
        quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=60000"]
        return [["npm", "install", "--prefix", where, *quiet, *wanted["npm"]]]
    python = str(place(name) / "bin" / "python")
    if shutil.which("uv"):
        pip = ["uv", "pip", "install", "-q", "--python", python]
        return [["uv", "venv", "-q", where], *_with_pip(wanted, pip, python)]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile", "--retries", "1", "--timeout", "20"]
    environment = [sys.executable, "-m", "venv", "--without-pip", where]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *quiet]
    return [environment, *_with_pip(wanted, pip, python)]


def _with_pip(wanted: dict[str, Any], pip: list[str], python: str) -> list[list[str]]:
    """The commands that install packages; of a program with `without`, itself and then what else it requires."""
    if "without" not in wanted:
        return [[*pip, *wanted["pip"]]]
    [program] = wanted["pip"]
    needs = [python, "-c", NEEDS, program.partition("==")[0], *wanted["without"]]
    return [[*pip, "--no-deps", program], needs, [*pip, "{needs}"]]


def install(name: str, seconds: float) -> str:
    """Install a client. Returns what went wrong, in a line."""
    shutil.rmtree(place(name), ignore_errors=True)
    place(name).mkdir(parents=True)
    until, said = time.monotonic() + seconds, ""
    try:
        for command in steps(name):
            whole = [part for one in command for part in (said.splitlines() if one == "{needs}" else [one])]
            said = _run(whole, until - time.monotonic())
    except FileNotFoundError as error:
        return f"{error.filename} is not here"
    except subprocess.TimeoutExpired:
        return "it took too long"
    except subprocess.CalledProcessError as error:
        lines: list[str] = str(error.stderr).strip().splitlines()
        return lines[-1] if lines else "it failed"
    (place(name) / "installed").write_text(str(VERSIONS[name]))
    return ""


def _run(command: Sequence[str], seconds: float) -> str:
    """Run a command and return what it printed. One that takes too long ends with all that it started."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            out, error = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, error)
    return out


def main(names: Sequence[str]) -> None:
    """Install what is missing of these clients; all if none is named."""
    until = time.monotonic() + SECONDS
    missing = [name for name in names or VERSIONS if not is_installed(name)]

    def said(name: str) -> str:
        started = time.monotonic()
        failed = install(name, until - started) if started < until else "there was no time left"
        taken = time.monotonic() - started
        return f"{name}: not installed: {failed}\n" if failed else f"{name}: installed in {taken:.0f} s\n"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for line in pool.map(said, missing):
            sys.stdout.write(line)
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
