"""The example answers without a server and without a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ask import ask


@pytest.mark.anyio
async def test_the_example_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LAMELLA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    said = await ask("Are you there?", tmp_path)
    assert said.endswith(")")
    assert "(tokens: tools " in said
    assert not said.startswith("failed")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
