"""Turns an uploaded file into text or a picture, in a child process that may fail or hang without harm to us."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio
import msgspec

from lamella.knowledge.extraction_job import UNKNOWN_MEDIA_TYPE, ExtractionJob, ExtractionLimits, FailureCode, Picture

__all__ = ["Extraction", "ExtractionLimits", "Extractor", "FailureCode", "Picture", "ProcessExtractor"]

WORKER_MODULE = "lamella.knowledge.extract_worker"
MAX_HEADER_BYTES = 64 * 1024
MAX_ERROR_BYTES = 16 * 1024
MAX_UTF8_BYTES = 4

# What native libraries, the loader and Python print when the address space is used up.
_MEMORY_MESSAGES = (
    b"memory allocation of",
    b"MemoryError",
    b"bad_alloc",
    b"annot allocate memory",
    b"ut of memory",
    b"failed to map segment",
    b"can't start new thread",
    b"Resource temporarily unavailable",
)
_REASONS: dict[FailureCode, str] = {
    "timeout": "Reading the file took too long. Split it, or save it in a simpler form, and upload that.",
    "memory": "Reading the file needs too much memory. Split it, or save it in a simpler form, and upload that.",
    "corrupt": "The file is damaged or unusual, and reading it failed. Save it again and upload the new file.",
}


@dataclass(frozen=True, slots=True)
class Extraction:
    """The result of reading a file.

    `ready`: `text` (with a form feed between the pages of a PDF or the slides of a presentation) and its o200k
    `tokens`, or a `picture` without text. `failed`: `code` for programs and `reason`, a sentence for the user who
    uploaded the file; the text is empty.
    """

    status: Literal["ready", "failed"]
    media_type: str
    text: str = ""
    tokens: int = 0
    pages: int | None = None
    title: str | None = None
    code: FailureCode | None = None
    reason: str | None = None
    picture: Picture | None = None


class Extractor(Protocol):
    """Reads uploaded files."""

    async def extract(self, path: Path, name: str) -> Extraction:
        """The text or picture in the file at `path`. `name` is the user's name for it and is never used as a path."""
        ...


class _Header(msgspec.Struct, frozen=True):
    """The first line of a child's answer; `size` bytes of text, or of the picture, follow."""

    media_type: str
    size: int
    tokens: int
    pages: int | None
    title: str | None
    picture: tuple[str, int, int] | None
    code: FailureCode | None
    reason: str | None


class ProcessExtractor:
    """An `Extractor` with one child process per file, at most `children` at a time."""

    def __init__(self, limits: ExtractionLimits | None = None, *, children: int = 2) -> None:
        self._limits = limits or ExtractionLimits()
        self._slots = asyncio.Semaphore(children)

    async def extract(self, path: Path, name: str) -> Extraction:
        """Read one file. Every failure of the file or of its child is a failed `Extraction`, never an exception.

        Waiting for a free child does not count towards the time limit. A cancelled call kills its child.
        """
        refused = await asyncio.to_thread(_refuse_unopened, path, self._limits)
        if refused is not None:
            return refused
        job = ExtractionJob(str(path), name, self._limits)
        async with self._slots:
            return await self._run(job)

    async def _run(self, job: ExtractionJob) -> Extraction:
        try:
            process = await _start()
        except OSError:
            return _failed("memory", "The server is too busy to read the file. Upload it again in a few minutes.")
        errors = asyncio.create_task(_tail(process))
        try:
            async with asyncio.timeout(self._limits.seconds):
                extraction = await _converse(process, job)
                returncode = await process.wait()
                return extraction or _diagnose(returncode, await errors)
        except TimeoutError:
            return _failed("timeout")
        finally:
            await _end(process)
            errors.cancel()


async def _start() -> Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-B", "-m", WORKER_MODULE),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=_environment(),
            limit=MAX_HEADER_BYTES,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # uvloop leaves the child alive when its start is cancelled.
        with anyio.CancelScope(shield=True), suppress(OSError):
            await _end(await starting)
        raise


async def _end(process: Process) -> None:
    """Kill a child that still runs, and let the kernel forget it."""
    if process.returncode is None:
        process.kill()
    with anyio.CancelScope(shield=True):
        await process.wait()


def _refuse_unopened(path: Path, limits: ExtractionLimits) -> Extraction | None:
    """Failures that need no child: a file over the size limit, or not a regular file."""
    try:
        found = path.stat()
    except OSError:
        return _failed("corrupt", "The file was not stored completely. Upload it again.")
    if not stat.S_ISREG(found.st_mode):
        return _failed("corrupt", "This is not a file. Upload a document instead.")
    if found.st_size > limits.max_bytes:
        reason = f"The file is larger than {limits.max_bytes // 1_000_000} MB. Split it and upload the parts you need."
        return _failed("too_large", reason)
    if found.st_size == 0:
        return _failed("empty", "The file is empty. Check that you saved it, and upload it again.")
    return None


async def _converse(process: Process, job: ExtractionJob) -> Extraction | None:
    """Send the child its job and read its answer; None if the answer is missing or invalid."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(job.to_line())
        await process.stdin.drain()
        header = msgspec.json.decode(await process.stdout.readline(), type=_Header)
        if not 0 <= header.size <= max(MAX_UTF8_BYTES * job.limits.max_characters, job.limits.max_picture_bytes):
            return None
        content = await process.stdout.readexactly(header.size)
        text = "" if header.picture else content.decode()
    except (OSError, ValueError, EOFError, msgspec.MsgspecError):
        return None
    if header.code is not None:
        return _failed(header.code, header.reason, header.media_type)
    if header.picture is not None:
        return Extraction("ready", header.media_type, picture=Picture(*header.picture, content))
    return Extraction("ready", header.media_type, text, header.tokens, header.pages, header.title)


async def _tail(process: Process) -> bytes:
    """The last words of the child's stderr; the rest is read and dropped, so that it never blocks on a full pipe."""
    assert process.stderr is not None
    tail = b""
    while piece := await process.stderr.read(MAX_ERROR_BYTES):
        tail = (tail + piece)[-MAX_ERROR_BYTES:]
    return tail


def _diagnose(returncode: int, errors: bytes) -> Extraction:
    """Why a child ended without an answer. SIGKILL that is not ours is the kernel's, short of memory."""
    if sys.platform != "win32" and returncode in (-signal.SIGXCPU, -signal.SIGALRM):
        return _failed("timeout")
    if sys.platform != "win32" and returncode == -signal.SIGKILL:
        return _failed("memory")
    if any(message in errors for message in _MEMORY_MESSAGES):
        return _failed("memory")
    return _failed("corrupt")


def _failed(code: FailureCode, reason: str | None = None, media_type: str = UNKNOWN_MEDIA_TYPE) -> Extraction:
    return Extraction("failed", media_type, code=code, reason=reason or _REASONS.get(code))


def _environment() -> dict[str, str]:
    """The child's whole environment: no keys or secrets of the server, and few threads and memory arenas.

    With the defaults each processor would add threads, and each thread 64 MB of address space.
    """
    return {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONUTF8": "1",
        "MALLOC_ARENA_MAX": "2",
        "TOKIO_WORKER_THREADS": "2",
        "RAYON_NUM_THREADS": "2",
    }
