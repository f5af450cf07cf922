"""Agents, projects and versions of the system prompt, which a user keeps beside conversations; and the layouts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from lamella.core.records import ProjectContent
from lamella.server.asked import PREFIX, IdempotencyKey, TheApp, TheCaller, ThePage
from lamella.server.schemas import (
    AgentPatch,
    Json,
    NewAgent,
    NewProject,
    NewSystemPrompt,
    ProjectFile,
    ProjectPatch,
    agent_json,
    layout_json,
    list_json,
    project_json,
    system_prompt_json,
    whole_list_json,
)

Version = Annotated[int, Path(ge=0, le=2**31 - 1)]

router = APIRouter(prefix=PREFIX)


@router.get("/layouts")
async def layouts(app: TheApp, caller: TheCaller) -> Json:
    """The layouts to choose from, each as its table."""
    return whole_list_json([layout_json(layout) for layout in app.layouts.values()], "name")


@router.post("/agents", status_code=201)
async def create_agent(body: NewAgent, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Json:
    """A new agent."""
    return agent_json(await app.library.create_agent(caller, body.given(), key))


@router.get("/agents")
async def agents(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's agents, newest first."""
    return list_json(await app.store.agents(caller, page), agent_json)


@router.get("/agents/{agent_id}")
async def agent(agent_id: str, app: TheApp, caller: TheCaller) -> Json:
    """One agent."""
    return agent_json(await app.store.agent(caller, agent_id))


@router.patch("/agents/{agent_id}")
async def patch_agent(agent_id: str, body: AgentPatch, app: TheApp, caller: TheCaller) -> Json:
    """Change an agent; what is different is a new revision, which its conversations have from their next turn on."""
    return agent_json(await app.library.change_agent(caller, agent_id, body.given()))


@router.delete("/agents/{agent_id}", status_code=204)
async def delete_agent(agent_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove an agent; its conversations go on without it."""
    await app.store.delete_agent(caller, agent_id)
    return Response(status_code=204)


@router.post("/projects", status_code=201)
async def create_project(body: NewProject, app: TheApp, caller: TheCaller, key: IdempotencyKey = None) -> Json:
    """A new project."""
    content = ProjectContent(body.name, body.instructions, tuple(body.file_ids))
    return project_json(await app.library.create_project(caller, content, key))


@router.get("/projects")
async def projects(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The caller's projects, newest first."""
    return list_json(await app.store.projects(caller, page), project_json)


@router.get("/projects/{project_id}")
async def project(
    project_id: str, app: TheApp, caller: TheCaller, model: str | None = None, layout: str | None = None
) -> Json:
    """One project; with a `model`, each file says whether it is `in_context` or `searched` there, and why."""
    if model is None:
        return project_json(await app.store.project(caller, project_id))
    return project_json(*await app.library.places(caller, project_id, model, layout)) | {"model": model}


@router.patch("/projects/{project_id}")
async def patch_project(project_id: str, body: ProjectPatch, app: TheApp, caller: TheCaller) -> Json:
    """Change name, instructions or the whole list of files; what is different is a new revision."""
    return project_json(await app.library.change_project(caller, project_id, body.edit))


@router.delete("/projects/{project_id}", status_code=204)
async def delete_project(project_id: str, app: TheApp, caller: TheCaller) -> Response:
    """Remove a project; its files stay, and its conversations go on without it."""
    await app.store.delete_project(caller, project_id)
    return Response(status_code=204)


@router.post("/projects/{project_id}/files")
async def add_project_file(project_id: str, body: ProjectFile, app: TheApp, caller: TheCaller) -> Json:
    """Put a file into a project, behind those that it has."""
    return project_json(await app.library.add_project_file(caller, project_id, body.file_id))


@router.delete("/projects/{project_id}/files/{file_id}")
async def remove_project_file(project_id: str, file_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Take a file out of a project; the file itself stays."""
    return project_json(await app.library.remove_project_file(caller, project_id, file_id))


@router.get("/system-prompts")
async def system_prompts(page: ThePage, app: TheApp, caller: TheCaller) -> Json:
    """The versions of the caller's system prompt, newest first; the oldest, 0, is the one that ships."""
    shipped = app.library.shipped
    found = await app.library.prompts(caller, page)
    return list_json(found, lambda prompt: system_prompt_json(prompt, shipped), "version")


@router.post("/system-prompts", status_code=201)
async def write_system_prompt(
    body: NewSystemPrompt, app: TheApp, caller: TheCaller, key: IdempotencyKey = None
) -> Json:
    """A new version: what new conversations begin with. Those that there are keep theirs."""
    return system_prompt_json(await app.library.write_prompt(caller, body.text, body.note, key), app.library.shipped)


@router.get("/system-prompts/current")
async def current_system_prompt(app: TheApp, caller: TheCaller) -> Json:
    """The newest version."""
    return system_prompt_json(await app.library.current_prompt(caller), app.library.shipped)


@router.get("/system-prompts/{version}")
async def system_prompt(version: Version, app: TheApp, caller: TheCaller) -> Json:
    """One version."""
    return system_prompt_json(await app.library.prompt(caller, version), app.library.shipped)
