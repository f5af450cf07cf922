"""A server that is killed in the middle of erasing a removed base: the next one goes on, and no byte is left."""

from __future__ import annotations

import asyncio
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import served
from lamella.storage import open_store
from leaking.restricted_base import ANN, restricted_base, second_model

from .processes import START
from .test_erased import left, settings, talked
from .test_revoked import SECRET

pytestmark = [pytest.mark.anyio, pytest.mark.long]

DYING = str(Path(__file__).with_name("dying_eraser.py"))
NEVER = 1_000_000
POINTS = 8
"""Places in the job at which a server is killed."""


@asynccontextmanager
async def erasing(folder: Path, base: str, most: int) -> AsyncIterator[tuple[Process, list[str]]]:
    """A server on a folder up to where its job hangs or has ended, and its words about that."""
    process = await asyncio.create_subprocess_exec(sys.executable, DYING, str(folder), base, str(most), stdout=PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START):
            words: list[str] = []
            while words[:1] not in (["hung"], ["finished"]):
                line = await process.stdout.readline()
                assert line, "it ended by itself"
                words = line.decode().split()
        yield process, words
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def removed_base(folder: Path) -> str:
    """A folder whose server was killed after the owner removed a base that two conversations are made of."""
    model = ScriptedModel()
    async with served(settings(folder), models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET, title="Heronsgate.md")
        for _ in range(2):
            await talked(app, client, model, base)
        now = app.clock.now()
    async with await open_store(folder / "lamella.db") as store:
        await store.access.delete_base(ANN, base, now)
    return base


async def test_killed_at_several_points_the_next_server_erases_what_is_left(tmp_path: Path) -> None:
    base = await removed_base(tmp_path / "before")
    assert list(left(tmp_path / "before"))
    whole = Path(shutil.copytree(tmp_path / "before", tmp_path / "whole"))
    async with erasing(whole, base, NEVER) as (process, words):
        process.kill()
    assert words[0] == "finished"
    assert list(left(whole)) == []
    count = int(words[1])
    assert count > 5 * POINTS, "there is a middle to be killed in"
    for n in range(POINTS):
        most = n * count // POINTS
        folder = Path(shutil.copytree(tmp_path / "before", tmp_path / f"{most}"))
        async with erasing(folder, base, most) as (process, words):
            process.kill()
            await process.wait()
        assert words == ["hung", str(most)]
        assert list(left(folder)), f"killed before statement {most} of {count}, it had erased all"
        async with erasing(folder, base, NEVER) as (process, words):
            process.kill()
            await process.wait()
        assert words[0] == "finished"
        assert list(left(folder)) == [], f"killed before statement {most} of {count}"
