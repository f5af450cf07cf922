"""Makes passages beside the server: a long document's in a child process, so that other requests are answered."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

import anyio
import msgspec

from lamella.core.errors import LamellaError
from lamella.core.knowledge import NewPassage
from lamella.knowledge.passage_worker import BATCH, Batch, Order
from lamella.knowledge.passages import passages_of
from lamella.search.lexical import LexicalEmbedder

WORKER_MODULE = "lamella.knowledge.passage_worker"

SHORT = 50_000
"""Characters of a text whose passages are made in this process: starting another one would take longer."""

LONGEST_LINE = 16_000_000
"""Bytes of a batch of passages as JSON, at most."""


class PassageMaker(Protocol):
    """Makes the passages of documents."""

    def make(self, text: str, order: Order) -> AsyncGenerator[Sequence[NewPassage], None]:
        """The passages of a text in batches, behind those that the order skips; closing it ends the work."""
        ...


class ProcessPassages:
    """A `PassageMaker` with a child process of low priority for each long text."""

    async def make(self, text: str, order: Order) -> AsyncGenerator[Sequence[NewPassage], None]:
        """See `PassageMaker.make`. Raises `LamellaError` when the child breaks off."""
        if len(text) <= SHORT:
            for batch in await asyncio.to_thread(_at_once, text, order):
                yield batch
            return
        process = await _start()
        feeding = asyncio.create_task(_feed(process, text, order))
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                yield msgspec.json.decode(line, type=Batch).passages
            if await process.wait() != 0:
                raise LamellaError("The passages of the document could not be made.", hint="It is tried again.")
        finally:
            feeding.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()


async def _start() -> Process:
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-B", "-m", WORKER_MODULE),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=environment,
        limit=LONGEST_LINE,
        start_new_session=True,
    )


async def _feed(process: Process, text: str, order: Order) -> None:
    """Give the child its text; one that has ended takes no more, and its exit says so."""
    assert process.stdin is not None
    with suppress(ConnectionError):
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.write(await asyncio.to_thread(text.encode))
        await process.stdin.drain()
    process.stdin.close()


def _at_once(text: str, order: Order) -> list[list[NewPassage]]:
    lexical = LexicalEmbedder() if order.lexical else None
    made = islice(passages_of(text, order.name, paged=order.paged, lexical=lexical), order.skip, None)
    batches = []
    while batch := list(islice(made, BATCH)):
        batches.append(batch)
    return batches
