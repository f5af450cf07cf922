"""Agents, projects, system prompts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.agents import Agent
from lamella.core.records import (
    File,
    StoredAgent,
    StoredProject,
    SystemPrompt,
)
from lamella.storage.columns import (
    NAMES,
    json_of,
    json_text,
)
from lamella.storage.mapping.values import Row


def agent_row(agent: Agent) -> Row:
    """The columns of an agent, without its owner and moments."""
    return {
        "id": agent.id,
        "name": agent.name,
        "prompt": agent.prompt,
        "reminder": agent.reminder,
        "replaces_system": agent.replaces_system,
        "tools": None if agent.tools is None else json_text(agent.tools),
        "model": agent.model,
        "layout": agent.layout,
        "thinking_effort": agent.thinking_effort,
        "fallback_model": agent.fallback_model,
        "revision": agent.revision,
    }


def agent_of(row: RowMapping) -> StoredAgent:
    """The agent of a row."""
    agent = Agent(
        id=row["id"],
        name=row["name"],
        prompt=row["prompt"],
        reminder=row["reminder"],
        replaces_system=row["replaces_system"],
        tools=None if row["tools"] is None else json_of(NAMES, row["tools"], f"agent {row['id']}"),
        model=row["model"],
        layout=row["layout"],
        revision=row["revision"],
        thinking_effort=row["thinking_effort"],
        fallback_model=row["fallback_model"],
    )
    return StoredAgent(agent, datetime.fromisoformat(row["created_at"]), datetime.fromisoformat(row["updated_at"]))


def project_of(row: RowMapping, files: Sequence[File]) -> StoredProject:
    """The project of a row, with its files in order."""
    return StoredProject(
        id=row["id"],
        name=row["name"],
        instructions=row["instructions"],
        files=tuple(files),
        revision=row["revision"],
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )


def system_prompt_of(row: RowMapping) -> SystemPrompt:
    """The version of a row."""
    return SystemPrompt(row["version"], row["text"], row["note"], datetime.fromisoformat(row["created_at"]))
