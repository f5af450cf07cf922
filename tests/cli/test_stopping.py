"""`lamella chat`, stopped with Ctrl-C: what came stays, and what it cost is marked as an estimate."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from endless import CHUNK, claude, never_ending

from .test_chat_commands import LAMELLA, _environment


async def _stopped(data: Path) -> str:
    """What the terminal shows of an answer that is stopped once 50 pieces came."""
    async with never_ending(claude(50)) as url:
        environment = _environment() | {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url, "LAMELLA_TITLES": "off"}
        command = (LAMELLA, "chat", "--data", str(data), "--model", "claude-opus-4-8", "Tell me about tides.")
        chat = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment)
        assert chat.stdout is not None
        said = ""
        async with asyncio.timeout(60):
            while said.count(CHUNK.strip()) < 50:
                said += os.fsdecode(await chat.stdout.read(4_096))
            chat.send_signal(signal.SIGINT)
            rest, _ = await chat.communicate()
        return said + os.fsdecode(rest)


def test_a_stopped_answer_shows_what_it_cost_as_an_estimate(tmp_path: Path) -> None:
    said = asyncio.run(_stopped(tmp_path))
    assert "[stopped]" in said
    found = re.search(r"^300 tokens · 0% cached · ≈([\d,]+) out · ≈\$0\.\d+$", said, re.MULTILINE)
    assert found is not None, said[-300:]
    assert 400 < int(found[1].replace(",", "")) < 1_200
