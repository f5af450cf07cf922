"""The tutorial and the README: every program and every command runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-hour.md").read_text("utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
PRINTS = {"ask.py": "offline demonstration", "tool.py": "Take it: it rains.", "agent.py": "It is 5. It is 9. $0.00"}
LAMELLA = f"{shlex.quote(sys.executable)} -c 'from lamella.cli import main; main()'"


def _environment(folder: Path) -> dict[str, str]:
    """No key of a provider, a data folder of its own, and the sources of this repository."""
    unset = ("ANTHROPIC_", "OPENAI_", "LAMELLA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    return kept | {"LAMELLA_DATA": str(folder / "terminal"), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}


def _output(command: list[str] | str, folder: Path) -> str:
    done = subprocess.run(
        command,
        shell=isinstance(command, str),
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_every_program_of_the_page_is_run() -> None:
    assert list(PROGRAMS) == list(PRINTS)
    assert PAGE.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("name", PRINTS)
def test_a_program_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(PROGRAMS[name], "utf-8")
    assert PRINTS[name] in _output([sys.executable, name], tmp_path)


def test_the_lines_of_the_readme_run(tmp_path: Path) -> None:
    [lines] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    start = "\n\nimport asyncio\nfrom pathlib import Path\n\nasyncio.run(main(Path('data')))\n"
    (tmp_path / "lines.py").write_text(lines + start, "utf-8")
    printed = _output([sys.executable, "lines.py"], tmp_path)
    assert "offline demonstration" in printed
    assert "('U1', " in printed


@pytest.mark.long
def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    """A line `$ …` is run; the lines after it are patterns, where … stands for anything."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
    steps = [step.splitlines() for step in blocks.split("$ ")[1:]]
    assert len(steps) == 5
    for command, *patterns in steps:
        printed = _output(re.sub(r"^lamella\b", lambda _: LAMELLA, command), tmp_path).splitlines()
        for pattern in patterns:
            wanted = ".*".join(re.escape(part.strip()) for part in pattern.split("…"))
            assert any(re.search(wanted, line) for line in printed), (command, pattern, printed)
