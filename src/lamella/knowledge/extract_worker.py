"""The child that reads one file: `python -m lamella.knowledge.extract_worker`, a job on stdin, its text on stdout.

Its answer is one line of JSON and then, when the file was readable, as many bytes as the line says: of UTF-8 text, or
of a picture.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from lamella.knowledge.extraction_job import (
    UNKNOWN_MEDIA_TYPE,
    ExtractedDocument,
    ExtractionJob,
    ExtractionLimits,
    Picture,
    UnreadableFile,
    too_many_characters,
)
from lamella.knowledge.media_type import HTML, PDF, PICTURES, Sniffed, refusal, sniff
from lamella.knowledge.text_content import has_controls, normalise, one_line

if sys.platform != "win32":
    import resource

GRACE_SECONDS = 5
MAX_OPEN_FILES = 64

# Normalising only removes characters, but seldom many: text this much over its limit is not worth the work.
_SLACK = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The child's result: a document and its tokens, a picture, or why there is neither."""

    media_type: str = UNKNOWN_MEDIA_TYPE
    document: ExtractedDocument | None = None
    picture: Picture | None = None
    tokens: int = 0
    failure: UnreadableFile | None = None


def main() -> None:
    """Read one job, obey its limits, answer, and leave without the clean-up of native libraries."""
    answer = _claim_stdout()
    job = ExtractionJob.from_line(sys.stdin.buffer.readline())
    confine(job.limits)
    _write(answer, extract(job))
    os._exit(0)


def extract(job: ExtractionJob) -> Outcome:
    """Read, normalise and count one file."""
    media_type = UNKNOWN_MEDIA_TYPE
    try:
        data = _read_bytes(Path(job.path), job.limits)
        sniffed = sniff(data, job.name)
        media_type = sniffed.media_type
        if unreadable := refusal(media_type):
            raise unreadable
        if media_type in PICTURES:
            return Outcome(media_type, picture=_read_picture(data, media_type, job.limits))
        document = _normalised(_read(data, sniffed, job.limits), job.limits)
    except UnreadableFile as failure:
        return Outcome(media_type, failure=failure)
    # Loaded by name: the tokenizer has to come after the limits, and only for a file that has text.
    tokens: int = importlib.import_module("lamella.knowledge.token_count").count_tokens(document.text)
    return Outcome(media_type, document, tokens=tokens)


def plain(data: bytes, name: str, limits: ExtractionLimits) -> Outcome | None:
    """The result of `extract` for a plain text, without tokens; None for all other types.

    Nothing has to be opened for this: archives and pictures begin with control characters.
    """
    if has_controls(data[:4096]):
        return None
    sniffed = sniff(data, name)
    if sniffed.text is None or sniffed.media_type == HTML or refusal(sniffed.media_type) is not None:
        return None
    try:
        return Outcome(sniffed.media_type, _normalised(ExtractedDocument(sniffed.text), limits))
    except UnreadableFile:
        return None


def _read_bytes(path: Path, limits: ExtractionLimits) -> bytes:
    with path.open("rb") as file:
        data = file.read(limits.max_bytes + 1)
    if len(data) > limits.max_bytes:
        raise UnreadableFile("too_large", f"The file is larger than {limits.max_bytes // 1_000_000} MB.")
    if not data.strip():
        raise UnreadableFile("empty", "The file is empty. Check that you saved it, and upload it again.")
    return data


def _read_picture(data: bytes, media_type: str, limits: ExtractionLimits) -> Picture:
    picture: Picture = importlib.import_module("lamella.knowledge.picture").read(data, media_type, limits)
    return picture


def _read(data: bytes, sniffed: Sniffed, limits: ExtractionLimits) -> ExtractedDocument:
    """Hand the file to its reader. Readers are loaded by name: a text file should not pay for the PDF library."""
    document: ExtractedDocument
    if sniffed.media_type == HTML:
        document = importlib.import_module("lamella.knowledge.office_text").read_html(sniffed.text, limits)
    elif sniffed.text is not None:
        document = ExtractedDocument(sniffed.text)
    elif sniffed.media_type == PDF:
        document = importlib.import_module("lamella.knowledge.pdf_text").read(data, limits)
    else:
        office_text = importlib.import_module("lamella.knowledge.office_text")
        document = office_text.read_office(data, sniffed.media_type, limits)
    return document


def _normalised(document: ExtractedDocument, limits: ExtractionLimits) -> ExtractedDocument:
    if len(document.text) > _SLACK * limits.max_characters:
        raise too_many_characters(limits)
    text = normalise(document.text)
    if document.pages is None:
        text = text.strip("\n")
    if len(text) > limits.max_characters:
        raise too_many_characters(limits)
    if not text or text.isspace():
        raise UnreadableFile("empty", "The file holds no text. Check that you uploaded the right one.")
    return replace(document, text=text, title=one_line(document.title))


def _claim_stdout() -> BinaryIO:
    """The pipe to the server, out of reach of native libraries that print."""
    sys.stdout.flush()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answer


def _write(answer: BinaryIO, outcome: Outcome) -> None:
    document, picture, failure = outcome.document, outcome.picture, outcome.failure
    content = document.text.encode() if document else picture.data if picture else b""
    header = {
        "media_type": outcome.media_type,
        "size": len(content),
        "tokens": outcome.tokens,
        "pages": document.pages if document else None,
        "title": document.title if document else None,
        "picture": [picture.media_type, picture.width, picture.height] if picture else None,
        "code": failure.code if failure else None,
        "reason": failure.reason if failure else None,
    }
    answer.write(json.dumps(header).encode() + b"\n")
    answer.write(content)
    answer.flush()


def confine(limits: ExtractionLimits) -> None:
    """Permanently limit this process's memory, time and priority, and its right to write files.

    On systems without such limits (Windows, partly macOS) only the server's time limit applies.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):  # Linux only: when memory runs out the kernel ends the child, not the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.nice(10)
    # The server kills a child that is late. Should the server die first, the alarm ends the child.
    signal.alarm(math.ceil(limits.seconds) + GRACE_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    _limit(resource.RLIMIT_CPU, 2 * math.ceil(limits.seconds) + GRACE_SECONDS)
    _limit(resource.RLIMIT_AS, limits.memory_bytes)


def _limit(which: int, value: int) -> None:
    """Lower one limit; a lower one stays, an unknown one is skipped."""
    if sys.platform == "win32":
        return
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(which)
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lowered, lowered))


if __name__ == "__main__":
    main()
