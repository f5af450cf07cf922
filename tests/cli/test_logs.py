"""The log in a file: every line as JSON, for its owner alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from lamella.cli.logs import configure_logs
from lamella.core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_lines_are_added_to_the_file_beside_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lamella.log"
    path.write_text('{"event": "of before"}\n')
    configure_logs(path)
    structlog.get_logger().info("Safe summary completed", preview="Grüße\n🦎", decision="answer")
    _, line = map(json.loads, path.read_text("utf-8").splitlines())
    assert (line["event"], line["preview"], line["level"]) == ("Safe summary completed", "Grüße\n🦎", "info")
    assert "Safe summary completed" in capsys.readouterr().err


def test_a_new_file_is_its_owners(tmp_path: Path) -> None:
    configure_logs(tmp_path / "new.log")
    assert (tmp_path / "new.log").stat().st_mode & 0o077 == 0


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be opened"):
        configure_logs(tmp_path / "nowhere" / "lamella.log")
