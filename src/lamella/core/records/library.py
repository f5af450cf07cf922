"""Records of agents, projects, files and their places in the window; callers and pages of lists."""

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

    `width` and `height` are the size in pixels of a picture, which has no text. `purpose` is what a client of OpenAI's
    API uploaded it for; it changes nothing here.
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
    purpose: str = "user_data"


@dataclass(frozen=True, slots=True)
class ProjectContent:
    """The editable fields of a project. `file_ids` are in the order of its documents."""

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
        """The editable fields."""
        return ProjectContent(self.name, self.instructions, tuple(file.id for file in self.files))


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document that a tool brought into a conversation. `url` is its source, or None.

    `size` is the fetched size in bytes; `text` is the readable part. `made_from` are the knowledge bases that it was
    made from: if a grant on one of them ends, it is withheld. `shown` is what its tool shows of one whose text is not
    stored: citations quote it.
    """

    title: str
    media_type: str
    text: str
    size: int
    url: str | None = None
    made_from: tuple[str, ...] = ()
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who sends a request. Every row has an owner and every method of the store takes the caller; another
    user's id is "not found".
    """

    user_id: str


ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """One page of a list. `has_more` says whether another follows in the same order."""

    data: tuple[ItemT, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of a list: at most `limit` items after the id `after`, newest first unless `order` is `asc`."""

    limit: int = 20
    after: str | None = None
    order: Literal["asc", "desc"] = "desc"


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the tree of a conversation's turns: after the answer of run `run_id` of turn `turn_id`.

    Without a turn it is the position before the first. The path of a position is the list of turns from the first one
    to it. Each turn stores the run that it follows, and that never changes.
    """

    turn_id: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class PinnedProject:
    """A project as it was during a turn, with its files by id."""

    id: str
    name: str
    instructions: str
    revision: int
    file_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """The agent, project and tools during a turn or a request for a summary. They are stored because they can be edited
    later.

    `tools` are all of the conversation, even if its agent may use only some.
    """

    system: str
    tools: tuple[ToolSpec, ...] = ()
    agent: Agent | None = None
    project: PinnedProject | None = None
