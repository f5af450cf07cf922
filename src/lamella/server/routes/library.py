"""Agents, projects and versions of the system prompt; and the layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Path, Response
from msgspec import UNSET, UnsetType
from pydantic import Field, StringConstraints

from lamella.app.library import FileLocation, FileReach
from lamella.context.layout import Layout, OldResults
from lamella.core.prompt import Kind, Lifetime, Zone
from lamella.core.records import File, FileStatus, ProjectContent, StoredAgent, StoredProject, SystemPrompt
from lamella.server.objects import Body, Effort, Id, ListObject, Moment, Object, effort_field, listed, whole_list
from lamella.server.routing import IdempotencyKey, TheApp, TheCaller, ThePage, api_router

router = api_router()

Version = Annotated[int, Path(ge=0, le=2**31 - 1)]

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

    def given(self) -> dict[str, Any]:
        """The fields, as `Agent` has them."""
        return _agent_fields(self.model_dump())


class AgentPatch(Body):
    """`PATCH /api/v1/agents/{id}`. Fields that are left out do not change."""

    name: Name = ""
    prompt: str = ""
    reminder: str = ""
    replaces_system: bool = False
    tools: Names | None = None
    model: Id | None = None
    layout: Id | None = None
    thinking_effort: Effort | None = None
    fallback_model: Id | None = None

    def given(self) -> dict[str, Any]:
        """The fields that were sent, as `Agent` has them."""
        return _agent_fields(self.model_dump(exclude_unset=True))


def _agent_fields(sent: dict[str, Any]) -> dict[str, Any]:
    tools = {"tools": tuple(sent["tools"])} if sent.get("tools") is not None else {}
    return sent | tools | effort_field(sent)


class NewProject(Body):
    """`POST /api/v1/projects`."""

    name: Name
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)


class ProjectPatch(Body):
    """`PATCH /api/v1/projects/{id}`. Fields that are left out do not change; `file_ids` is the complete list."""

    name: Name = ""
    instructions: str = ""
    file_ids: FileIds = Field(default_factory=list)

    def edit(self, now: ProjectContent) -> ProjectContent:
        """The project with the fields of the body."""
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


class AgentObject(Object, kw_only=True):
    """An agent. `tools` null allows all. `fallback_model` answers if its model fails before its answer begins.

    `thinking_effort` null leaves it to the conversation or the server.
    """

    id: str
    object: Literal["agent"] = "agent"
    name: str
    prompt: str
    reminder: str
    replaces_system: bool
    tools: list[str] | None
    model: str | None
    layout: str | None
    thinking_effort: str | None
    fallback_model: str | None
    revision: int
    created_at: Moment
    updated_at: Moment


class HeldFileObject(Object, kw_only=True):
    """A file of a project. A picture has its size in pixels. `availability` says where it is for the named model, if
    one was named.
    """

    id: str
    name: str
    media_type: str
    tokens: int
    status: FileStatus
    width: int | UnsetType = UNSET
    height: int | UnsetType | None = UNSET
    availability: FileReach | UnsetType = UNSET
    why: str | UnsetType = UNSET


class ProjectObject(Object, kw_only=True):
    """A project. `tokens` is the size of its files. `model` is the model that was named."""

    id: str
    object: Literal["project"] = "project"
    name: str
    instructions: str
    files: list[HeldFileObject]
    tokens: int
    revision: int
    created_at: Moment
    updated_at: Moment
    model: str | UnsetType = UNSET


class SystemPromptObject(Object, kw_only=True):
    """A version of the system prompt. `shipped`: its text is the one that comes with the server."""

    object: Literal["system_prompt"] = "system_prompt"
    version: int
    text: str
    note: str
    shipped: bool
    created_at: Moment | None


class LayoutSlotObject(Object, kw_only=True):
    """A slot of a layout."""

    kind: Kind
    zone: Zone
    lifetime: Lifetime
    when_changed: bool


class LayoutObject(Object, kw_only=True):
    """A layout as its table, in the order of the window."""

    object: Literal["layout"] = "layout"
    name: str
    description: str
    slots: list[LayoutSlotObject]
    old_results: OldResults
    markers: str


def agent_object(stored: StoredAgent) -> AgentObject:
    """An agent."""
    at = {"created_at": stored.created_at.isoformat(), "updated_at": stored.updated_at.isoformat()}
    return AgentObject.of(stored.agent, **at)


def project_object(project: StoredProject, places: Mapping[str, FileLocation] | None = None) -> ProjectObject:
    """A project. With `places`, each file says where it is for a model, and why."""
    return ProjectObject.of(
        project,
        files=[_held(file, places[file.id] if places is not None else None) for file in project.files],
        tokens=sum(file.tokens for file in project.files),
    )


def _held(file: File, place: FileLocation | None) -> HeldFileObject:
    size = {"width": UNSET, "height": UNSET} if file.width is None else {}
    there = {} if place is None else {"availability": place.place, "why": place.why}
    return HeldFileObject.of(file, **size, **there)


def system_prompt_object(prompt: SystemPrompt, shipped: str) -> SystemPromptObject:
    """A version of the system prompt; `shipped` is the text that ships."""
    return SystemPromptObject.of(prompt, shipped=prompt.text == shipped)


def layout_object(layout: Layout) -> LayoutObject:
    """A layout as its table."""
    return LayoutObject.of(layout, slots=[LayoutSlotObject.of(slot) for slot in layout.slots])


@router.get("/layouts")
async def layouts(app: TheApp, caller: TheCaller) -> ListObject[LayoutObject]:
    """The layouts to choose from, each as its table."""
    return whole_list([layout_object(layout) for layout in app.layouts.values()], "name")


@router.post("/agents", status_code=201)
async def create_agent(body: NewAgent, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> AgentObject:
    """A new agent."""
    return agent_object(await app.library.create_agent(caller, body.given(), key))


@router.get("/agents")
async def agents(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[AgentObject]:
    """The caller's agents, newest first."""
    return listed(await app.store.library.agents(caller, page), agent_object)


@router.get("/agents/{agent_id}")
async def agent(agent_id: str, app: TheApp, caller: TheCaller) -> AgentObject:
    """One agent."""
    return agent_object(await app.store.library.agent(caller, agent_id))


@router.patch("/agents/{agent_id}")
async def patch_agent(agent_id: str, body: AgentPatch, app: TheApp, caller: TheCaller) -> AgentObject:
    """Change an agent. A change makes a new revision, which its conversations use from their next turn on."""
    return agent_object(await app.library.change_agent(caller, agent_id, body.given()))


@router.delete("/agents/{agent_id}", status_code=204)
async def delete_agent(agent_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove an agent; its conversations go on without it."""
    await app.store.library.delete_agent(caller, agent_id)
    return Response(status_code=204)


@router.post("/projects", status_code=201)
async def create_project(body: NewProject, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> ProjectObject:
    """A new project."""
    content = ProjectContent(body.name, body.instructions, tuple(body.file_ids))
    return project_object(await app.library.create_project(caller, content, key))


@router.get("/projects")
async def projects(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[ProjectObject]:
    """The caller's projects, newest first."""
    return listed(await app.store.library.projects(caller, page), project_object)


@router.get("/projects/{project_id}")
async def project(
    project_id: str, app: TheApp, caller: TheCaller, model: str | None = None, layout: str | None = None
) -> ProjectObject:
    """One project; with a `model`, each file says whether it is `in_context` or `searched` there, and why."""
    if model is None:
        return project_object(await app.store.library.project(caller, project_id))
    found = project_object(*await app.library.places(caller, project_id, model, layout))
    found.model = model
    return found


@router.patch("/projects/{project_id}")
async def patch_project(project_id: str, body: ProjectPatch, app: TheApp, caller: TheCaller) -> ProjectObject:
    """Change name, instructions or the complete list of files. A change makes a new revision."""
    return project_object(await app.library.change_project(caller, project_id, body.edit))


@router.delete("/projects/{project_id}", status_code=204)
async def delete_project(project_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a project; its files stay, and its conversations go on without it."""
    await app.store.library.delete_project(caller, project_id)
    return Response(status_code=204)


@router.post("/projects/{project_id}/files")
async def add_project_file(project_id: str, body: ProjectFile, app: TheApp, caller: TheCaller) -> ProjectObject:
    """Add a file to a project, after its other files."""
    return project_object(await app.library.add_project_file(caller, project_id, body.file_id))


@router.delete("/projects/{project_id}/files/{file_id}")
async def remove_project_file(project_id: str, file_id: str, app: TheApp, caller: TheCaller) -> ProjectObject:
    """Remove a file from a project. The file itself is kept."""
    return project_object(await app.library.remove_project_file(caller, project_id, file_id))


@router.get("/system-prompts")
async def system_prompts(page: ThePage, app: TheApp, caller: TheCaller) -> ListObject[SystemPromptObject]:
    """The versions of the caller's system prompt, newest first. Version 0 is the shipped one."""
    shipped = app.library.shipped
    found = await app.library.prompts(caller, page)
    return listed(found, lambda prompt: system_prompt_object(prompt, shipped), "version")


@router.post("/system-prompts", status_code=201)
async def write_system_prompt(
    body: NewSystemPrompt, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> SystemPromptObject:
    """Store a new version. New conversations use it; existing ones keep theirs."""
    return system_prompt_object(await app.library.write_prompt(caller, body.text, body.note, key), app.library.shipped)


@router.get("/system-prompts/current")
async def current_system_prompt(app: TheApp, caller: TheCaller) -> SystemPromptObject:
    """The newest version."""
    return system_prompt_object(await app.library.current_prompt(caller), app.library.shipped)


@router.get("/system-prompts/{version}")
async def system_prompt(version: Version, app: TheApp, caller: TheCaller) -> SystemPromptObject:
    """One version."""
    return system_prompt_object(await app.library.prompt(caller, version), app.library.shipped)
