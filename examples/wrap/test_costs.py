"""The example against the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from costs import costs
from lamella_simulator.provider import simulated


def test_each_question_has_its_cost_and_its_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated() as provider:
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        *questions, together = costs(str(tmp_path / "records"))
    assert len(questions) == 3
    assert "All that was cached was read" in questions[-1]
    assert "the markers saved $0." in together
