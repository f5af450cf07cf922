"""Installs the clients of versions.toml, each in an environment of its own, outside of the repository.

    python tests/clients/install.py               # all of them
    python tests/clients/install.py codex aider   # only these

They are kept in `$LAMELLA_TEST_CLIENTS`, or in the user's cache folder. What is installed already is left alone. A
client that can't be installed is named, and its tests are skipped: a registry that can't be reached fails nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

VERSIONS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("versions.toml").read_text())
SECONDS = 300
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


def steps(name: str) -> list[list[str]]:
    """The commands that install a client."""
    wanted, where = VERSIONS[name], str(place(name))
    if "npm" in wanted:
        quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=60000"]
        return [["npm", "install", "--prefix", where, *quiet, *wanted["npm"]]]
    python = str(place(name) / "bin" / "python")
    if shutil.which("uv"):
        return [["uv", "venv", "-q", where], ["uv", "pip", "install", "-q", "--python", python, *wanted["pip"]]]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile", "--retries", "1", "--timeout", "20"]
    environment = [sys.executable, "-m", "venv", "--without-pip", where]
    return [environment, [sys.executable, "-m", "pip", "--python", python, "install", *quiet, *wanted["pip"]]]


def install(name: str, seconds: float) -> str:
    """Install a client. Returns what went wrong, in a line."""
    shutil.rmtree(place(name), ignore_errors=True)
    place(name).mkdir(parents=True)
    try:
        for command in steps(name):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    except FileNotFoundError as error:
        return f"{error.filename} is not here"
    except subprocess.TimeoutExpired:
        return "it took too long"
    except subprocess.CalledProcessError as error:
        said: list[str] = str(error.stderr).strip().splitlines()
        return said[-1] if said else "it failed"
    (place(name) / "installed").write_text(str(VERSIONS[name]))
    return ""


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
