"""What conversations share: agents, projects, files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lamella.core.agents import Agent


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """An agent with its moments."""

    agent: Agent
    created_at: datetime
    updated_at: datetime


FileStatus = Literal["ready", "failed"]


@dataclass(frozen=True, slots=True)
class File:
    """An uploaded file. `tokens` is the local count of its text; `code` and `reason` say why an extraction failed.

    `width` and `height` are the size in pixels of a picture, which has no text.
    """

    id: str
    name: str
    media_type: str
    size: int
    status: FileStatus
    tokens: int
    created_at: datetime
    pages: int | None = None
    code: str | None = None
    reason: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class ProjectContent:
    """What a user says of a project; `file_ids` in the order of its documents."""

    name: str
    instructions: str = ""
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredProject:
    """A project with its files and moments. `revision` counts its edits from 1."""

    id: str
    name: str
    instructions: str
    files: tuple[File, ...]
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def content(self) -> ProjectContent:
        """What its user said of it."""
        return ProjectContent(self.name, self.instructions, tuple(file.id for file in self.files))


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """Something to read that a tool brought into a conversation; `url` is where it came from, if anywhere.

    `size` is in bytes: of what was fetched, of which `text` is what can be read. `made_from` are the knowledge bases
    that it was made from, so that it is withheld when a grant on one of them falls.
    """

    title: str
    media_type: str
    text: str
    size: int
    url: str | None = None
    made_from: tuple[str, ...] = ()
