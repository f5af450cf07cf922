"""What a command loads before it begins: one that asks a server does not load the engine."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["chat", "kb", "sessions", "inspect", "users"])
def test_a_command_that_may_ask_a_server_loads_no_engine(command: str) -> None:
    program = (
        f"import sys; import lamella.cli.{command}; "
        "print(sorted({'sqlalchemy', 'fastapi', 'anthropic', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
