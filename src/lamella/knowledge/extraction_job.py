"""The protocol between the server and the reading child: the job, its limits, and the ways a file can fail."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

FailureCode: TypeAlias = Literal[
    "unsupported_type",
    "encrypted",
    "corrupt",
    "too_large",
    "timeout",
    "memory",
    "empty",
    "archive_bomb",
    "not_text",
]

UNKNOWN_MEDIA_TYPE = "application/octet-stream"
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class ExtractionLimits:
    """The limits of one file. Sizes in bytes; `max_characters` in code points of the extracted text.

    `memory_bytes` is address space. The Office reader maps 0.3 GB before it reads anything, so less than 0.5 GB fails
    on good files. `max_ratio` compares an archive with its unpacked size, only above `ratio_free_bytes`: a small
    spreadsheet of equal rows is no bomb. A picture of more than `max_pixels` is not decoded. Pictures are scaled down
    to `max_picture_edge` pixels (Anthropic's limit once a window has over 20 pictures) and `max_picture_bytes` (under 5
    MiB as base64, its limit).
    """

    max_bytes: int = 50 * MEGABYTE
    seconds: float = 60.0
    memory_bytes: int = 1_500 * MEGABYTE
    max_pages: int = 2_000
    max_characters: int = 5_000_000
    max_unpacked_bytes: int = 400 * MEGABYTE
    max_ratio: int = 100
    ratio_free_bytes: int = 30 * MEGABYTE
    max_members: int = 10_000
    max_pixels: int = 100_000_000
    max_picture_edge: int = 2_000
    max_picture_bytes: int = 3_900_000


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """One file to read. `name` is the user's and only tells Markdown, CSV and HTML from other texts."""

    path: str
    name: str
    limits: ExtractionLimits

    def to_line(self) -> bytes:
        """One line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ExtractionJob:
        """The job of a line that `to_line` wrote."""
        fields = json.loads(line)
        return cls(fields["path"], fields["name"], ExtractionLimits(**fields["limits"]))


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """The extracted text, unchanged. Pages are separated by form feeds if `pages` is set."""

    text: str
    pages: int | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as models are shown it: PNG, JPEG or WebP, upright, without metadata. Sizes in pixels."""

    media_type: str
    width: int
    height: int
    data: bytes


class UnreadableFile(Exception):
    """The file is neither text nor a picture for us; `reason` is a sentence for its owner. Stays in the child."""

    def __init__(self, code: FailureCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def too_many_characters(limits: ExtractionLimits) -> UnreadableFile:
    """The refusal of a file whose text passes `max_characters`."""
    return UnreadableFile(
        "too_large",
        f"The file holds over {limits.max_characters:,} characters of text. Split it and upload the parts you need.",
    )


def damaged() -> UnreadableFile:
    """The refusal of a file that breaks its own format."""
    return UnreadableFile(
        "corrupt", "The file is damaged or was not uploaded completely. Open it to check, and upload it again."
    )
