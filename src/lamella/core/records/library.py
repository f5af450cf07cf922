"""What a user keeps, and who asks: agents, projects, files, their places in the window, callers, pages of lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

from lamella.core.agents import Agent
from lamella.core.prompt import ToolSpec


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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. Every row has an owner and every store verb takes the caller; a foreign id is "not found"."""

    user_id: str


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """One page of a list. `has_more` says whether another follows in the same order."""

    data: tuple[ItemT, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page: at most `limit` items behind the id `after`, by id, newest first unless `order` is `asc`."""

    limit: int = 20
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"


@dataclass(frozen=True, slots=True)
class Place:
    """A point in the tree of a conversation's turns: behind the answer of the run `run_id` of the turn `turn_id`.

    Without a turn it is the place before the first. The way from a place back to the first turn is a path: each turn
    says which run of which turn it follows, and that never changes.
    """

    turn_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class PinnedProject:
    """A project as it stood around a turn; its files by their ids."""

    id: str
    name: str
    instructions: str
    revision: int
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """What stood around a turn, or a request for a summary, as it was then: it can be edited and removed.

    `tools` are all that the conversation has, whatever its agent may use.
    """

    system: str
    tools: tuple[ToolSpec, ...] = ()
    agent: Agent | None = None
    project: PinnedProject | None = None
