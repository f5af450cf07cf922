"""Agents, projects, files, system prompts and layouts."""

from __future__ import annotations

from collections.abc import Mapping

from lamella.app.app import App
from lamella.app.library import FilePlace
from lamella.context.input import MARGIN
from lamella.context.layout import Layout
from lamella.core.models import ModelFacts
from lamella.core.records import (
    File,
    StoredAgent,
    StoredProject,
    SystemPrompt,
)
from lamella.server.schemas.lists import Json


def agent_json(stored: StoredAgent) -> Json:
    """An agent."""
    agent = stored.agent
    return {
        "id": agent.id,
        "object": "agent",
        "name": agent.name,
        "prompt": agent.prompt,
        "reminder": agent.reminder,
        "replaces_system": agent.replaces_system,
        "tools": None if agent.tools is None else list(agent.tools),
        "model": agent.model,
        "layout": agent.layout,
        "thinking_effort": agent.thinking_effort,
        "fallback_model": agent.fallback_model,
        "revision": agent.revision,
        "created_at": stored.created_at.isoformat(),
        "updated_at": stored.updated_at.isoformat(),
    }


def project_json(project: StoredProject, places: Mapping[str, FilePlace] | None = None) -> Json:
    """A project; `tokens` are those of its files. With `places`, each file says where it is for a model, and why."""
    return {
        "id": project.id,
        "object": "project",
        "name": project.name,
        "instructions": project.instructions,
        "files": [_held_json(file, places[file.id] if places is not None else None) for file in project.files],
        "tokens": sum(file.tokens for file in project.files),
        "revision": project.revision,
        "created_at": project.created_at.isoformat(),
        "updated_at": project.updated_at.isoformat(),
    }


def _held_json(file: File, place: FilePlace | None) -> Json:
    """A file of a project; a picture has its size in pixels."""
    made = {name: getattr(file, name) for name in ("id", "name", "media_type", "tokens", "status")}
    made |= {} if file.width is None else {"width": file.width, "height": file.height}
    return made if place is None else made | {"place": place.place.value, "why": place.why}


def system_prompt_json(prompt: SystemPrompt, shipped: str) -> Json:
    """A version of the system prompt; `shipped` says whether its text is the one that ships."""
    return {
        "object": "system_prompt",
        "version": prompt.version,
        "text": prompt.text,
        "note": prompt.note,
        "shipped": prompt.text == shipped,
        "created_at": prompt.created_at.isoformat() if prompt.created_at else None,
    }


def layout_json(layout: Layout) -> Json:
    """A layout as its table, in the order of the window."""
    return {
        "object": "layout",
        "name": layout.name,
        "description": layout.description,
        "slots": [
            {
                "kind": slot.kind.value,
                "zone": slot.zone.value,
                "lifetime": slot.lifetime.value,
                "when_changed": slot.when_changed,
            }
            for slot in layout.slots
        ],
        "old_results": layout.old_results.value,
        "markers": layout.markers,
    }


def file_json(file: File, app: App) -> Json:
    """A file. `fits` says whether its text has room in the default model's window; if not, it is read in pieces."""
    facts = app.models.facts(app.models.default)
    budget = app.engine_settings.budget(facts)
    estimate = round(file.tokens * facts.token_factor * (1 + MARGIN))
    fits = estimate <= budget
    reason = file.reason
    if file.status == "ready" and not fits:
        reason = (
            f"About {estimate:,} tokens do not fit the {budget:,} of {facts.name}: "
            "the file is listed, and read in pieces when a question needs it."
        )
    return {
        "id": file.id,
        "object": "file",
        "name": file.name,
        "size": file.size,
        "media_type": file.media_type,
        "status": file.status,
        "code": file.code,
        "reason": reason,
        "tokens": file.tokens,
        "fits": fits if file.status == "ready" else False,
        "pages": file.pages,
        "width": file.width,
        "height": file.height,
        "created_at": file.created_at.isoformat(),
    }


def model_json(name: str, facts: ModelFacts) -> Json:
    """A model by the name that chooses it; `caution` is what the model table does not have of it."""
    return {
        "id": name,
        "object": "model",
        "provider": facts.provider,
        "window": facts.window,
        "known": facts.known,
        "caution": facts.caution,
    }
