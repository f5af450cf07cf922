"""Agents, projects and summaries: what a deployment or a user puts into the window beside the conversation."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.errors import InvalidRequest
from lamella.core.messages import Attachment


@dataclass(frozen=True, slots=True)
class Agent:
    """A custom agent (SPEC O2). `prompt` may be empty: an agent can be tools, a model or a reminder alone.

    `replaces_system`: its prompt stands in place of the system prompt, and does not move. Then it has one.

    `tools` are the names of the tools it may use, None for all. `model` and `layout` are what its conversations begin
    with where nothing else is asked for; `thinking_effort` holds where a conversation has none of its own.
    `fallback_model` answers a turn whose model fails, None for the deployment's. `revision` counts its edits from 1.
    """

    id: str
    name: str
    prompt: str
    reminder: str = ""
    replaces_system: bool = False
    tools: tuple[str, ...] | None = None
    model: str | None = None
    layout: str | None = None
    revision: int = 1
    thinking_effort: str | None = None
    fallback_model: str | None = None


def check_prompt(prompt: str, *, replaces_system: bool) -> None:
    """Raises `InvalidRequest` for an agent that would leave a conversation without any system prompt."""
    if replaces_system and not prompt.strip():
        raise InvalidRequest(
            "The agent replaces the system prompt, and its prompt is empty.",
            hint="Write a prompt, or set replaces_system to false.",
            param="prompt",
        )


@dataclass(frozen=True, slots=True)
class Project:
    """Files and instructions that belong to every conversation of a project (SPEC O4).

    The documents of `files` are numbered for one conversation. `revision` counts its edits from 1.
    """

    id: str
    name: str
    instructions: str = ""
    files: tuple[Attachment, ...] = ()
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an earlier session (SPEC L4). Summaries are never merged into each other.

    `made_from`, `withheld`: see `Step`.
    """

    id: str
    text: str
    tokens: int
    made_from: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
