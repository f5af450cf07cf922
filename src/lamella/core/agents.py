"""Agents, projects and summaries: what a deployment or a user puts into the window beside the conversation."""

from __future__ import annotations

from dataclasses import dataclass

from lamella.core.messages import Attachment


@dataclass(frozen=True, slots=True)
class Agent:
    """A custom agent. `replaces_system`: its prompt stands in place of the system prompt, and does not move (O2)."""

    id: str
    name: str
    prompt: str
    reminder: str = ""
    replaces_system: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Files and instructions that belong to every conversation of a project (SPEC O4)."""

    id: str
    name: str
    instructions: str = ""
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of an earlier session (SPEC L4). Summaries are never merged into each other."""

    id: str
    text: str
    tokens: int
