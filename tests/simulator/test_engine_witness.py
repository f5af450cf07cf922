"""llama.cpp as a witness: the simulator in token mode reads what a real engine reads, within 1 %."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

for package in ("xllamacpp", "gguf", "tokenizers"):
    pytest.importorskip(package, reason=f"the witness needs {package}, which ./check installs on Linux with x86-64")

# They import those packages, which other systems need not have.
from witnessing.comparison import TOLERANCE, compared, in_token_mode  # noqa: E402
from witnessing.engine import engine  # noqa: E402
from witnessing.model import make_model  # noqa: E402
from witnessing.prompts import prompts_of  # noqa: E402

pytestmark = pytest.mark.anyio
TRACES = Path(__file__).parents[2] / "bench" / "traces"
REQUESTS = {"changing": 6, "human_gaps": 5}
"""Of each trace: a chat that only grows, and one with context that leaves the middle of the prompt again."""


async def test_the_simulator_reads_what_an_engine_reads(tmp_path: Path) -> None:
    files = [TRACES / f"{name}.json" for name in REQUESTS]
    model = make_model(tmp_path, files)
    simulator = in_token_mode(model)
    with engine(model.weights) as client:
        for path in files:
            prompts = islice(prompts_of(json.loads(path.read_text("utf-8"))), REQUESTS[path.stem])
            rows = [row async for row in compared(client, simulator, prompts)]
            assert [row for row in rows if row.difference > TOLERANCE] == []
            assert sum(row.engine for row in rows) > 0.4 * sum(row.prompt for row in rows)
