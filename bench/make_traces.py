"""Writes the traces of `bench/traces` from `bench/writing`; the same bytes every time.

    python bench/make_traces.py [--check]

With --check nothing is written; the exit code says whether the files are up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from writing import agent_project, changing, human_gaps, many_calls, plain_chat, tool_heavy

FOLDER = Path(__file__).parent / "traces"
TRACES = {
    "plain_chat": plain_chat.trace,
    "tool_heavy": tool_heavy.trace,
    "agent_project": agent_project.trace,
    "many_calls": many_calls.trace,
    "human_gaps": human_gaps.trace,
    "changing": changing.trace,
}


def documents() -> dict[Path, str]:
    """The content of each file."""
    return {
        FOLDER / f"{name}.json": json.dumps({"lamella_trace": 1, **make()}, indent=1, ensure_ascii=False) + "\n"
        for name, make in TRACES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    options = parser.parse_args()
    stale = [path for path, text in documents().items() if not path.is_file() or path.read_text("utf-8") != text]
    if options.check:
        sys.exit("out of date: " + ", ".join(path.name for path in stale) if stale else 0)
    FOLDER.mkdir(exist_ok=True)
    for path, text in documents().items():
        path.write_text(text, "utf-8")
        print(f"{path.name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
