"""Bodies about agents, projects and system prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints

from lamella.core.records import (
    ProjectContent,
)
from lamella.server.schemas.bodies import Body, Effort, Id, effort_field
from lamella.server.schemas.lists import Json

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


Names = Annotated[list[Id], Field(max_length=200)]


FileIds = Annotated[list[Id], Field(max_length=1000)]


class NewAgent(Body):
    """`POST /api/v1/agents`."""

    name: Name
    prompt: str = ""
    reminder: str = ""
    replaces_system: bool = False
    tools: Names | None = None
    model: Id | None = None
    layout: Id | None = None
    thinking_effort: Effort | None = None
    fallback_model: Id | None = None

    def given(self) -> Json:
        """The fields, as `Agent` has them."""
        return _agent_fields(self.model_dump())


class AgentPatch(Body):
    """`PATCH /api/v1/agents/{id}`; what is left out stays."""

    name: Name = ""
    prompt: str = ""
    reminder: str = ""
    replaces_system: bool = False
    tools: Names | None = None
    model: Id | None = None
    layout: Id | None = None
    thinking_effort: Effort | None = None
    fallback_model: Id | None = None

    def given(self) -> Json:
        """The fields that were sent, as `Agent` has them."""
        return _agent_fields(self.model_dump(exclude_unset=True))


def _agent_fields(sent: Json) -> Json:
    tools = {"tools": tuple(sent["tools"])} if sent.get("tools") is not None else {}
    return sent | tools | effort_field(sent)


class NewProject(Body):
    """`POST /api/v1/projects`."""

    name: Name
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)


class ProjectPatch(Body):
    """`PATCH /api/v1/projects/{id}`; what is left out stays, `file_ids` is the whole list."""

    name: Name = ""
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)

    def edit(self, now: ProjectContent) -> ProjectContent:
        """The project with what was sent."""
        sent = self.model_dump(exclude_unset=True)
        if "file_ids" in sent:
            sent["file_ids"] = tuple(sent["file_ids"])
        return replace(now, **sent)


class ProjectFile(Body):
    """`POST /api/v1/projects/{id}/files`."""

    file_id: Id


class NewSystemPrompt(Body):
    """`POST /api/v1/system-prompts`."""

    text: str
    note: Annotated[str, StringConstraints(max_length=1000)] = ""
