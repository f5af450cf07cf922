"""What stood around a conversation, as a trace says it: tools, agents, projects with their files, attachments."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lamella.core.agents import Agent
from lamella.core.errors import NotFound
from lamella.core.json import decode_object, encode_text
from lamella.core.knowledge import WITHHELD_DOCUMENT
from lamella.core.messages import Attachment
from lamella.core.prompt import ToolSpec
from lamella.core.records import Caller, PinnedProject
from lamella.storage import Store
from lamella.tooling.tool import Registry
from lamella_lab.export.placeholders import Placeholders
from lamella_lab.trace.format import TraceAgent, TraceProject
from lamella_lab.trace.parts import TraceFile, TraceFound, TraceTool


@dataclass(frozen=True, slots=True)
class Missing:
    """What a trace leaves out of its conversation. `placeholders` replace names if names are left out too."""

    placeholders: Placeholders | None
    reasons: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """Note that this is not carried."""
        self.reasons.append(what)

    def named(self, name: str) -> str:
        """How something is named here that somebody gave a name."""
        return f"“{name if self.placeholders is None else self.placeholders.name(name)}”"


def tools_of(specs: Sequence[ToolSpec], registry: Registry) -> list[TraceTool]:
    """Tools with what they do to a turn, as far as they are still there."""
    return [
        TraceTool(
            name=spec.name,
            description=spec.description,
            input_schema=_schema(spec.input_schema),
            when_old=spec.when_old,
            kind="search" if registry.is_search(spec.name) else "other",
        )
        for spec in specs
    ]


def _schema(text: str) -> dict[str, Any] | str:
    """A schema as an object if that encodes to the same text again, else as its text."""
    schema = dict(decode_object(text))
    return schema if TraceTool("x", input_schema=schema).schema == text and encode_text(schema) == text else text


def agent_of(agent: Agent) -> TraceAgent:
    """An agent; its model, layout and effort are said by the turns that they held for."""
    return TraceAgent(
        prompt=agent.prompt,
        name=agent.name,
        replaces_system=agent.replaces_system,
        reminder=agent.reminder,
        tools=list(agent.tools) if agent.tools is not None else None,
        fallback_model=agent.fallback_model,
    )


async def project_of(
    store: Store, caller: Caller, conversation_id: str, project: PinnedProject, missing: Missing
) -> TraceProject:
    """A project with its files; those that were removed since are added to `missing`."""
    files = []
    for file_id in project.file_ids:
        try:
            [attached] = await store.files.attachments(caller, conversation_id, [file_id])
        except NotFound:
            missing.add(f"a file of the project {missing.named(project.name)} ({file_id}), which was deleted")
            continue
        files.append(file_of(attached))
    return TraceProject(files=files, instructions=project.instructions, name=project.name)


def file_of(attached: Attachment) -> TraceFile:
    """A file as it was stored."""
    made = TraceFile(name=attached.title, id=attached.file_id, media_type=attached.media_type, tokens=attached.tokens)
    if attached.image is not None:
        made.media_type = attached.image.media_type
        made.data = b64encode(attached.image.data).decode()
        made.width, made.height = attached.image.width, attached.image.height
    elif attached.text is not None:
        made.text = attached.text
    else:
        made.unreadable = attached.reason or ""
    return made


def found_of(document: Attachment) -> TraceFound:
    """What a tool brought into the conversation."""
    return TraceFound(document.title, document.text or "", document.url, document.media_type)


def withheld_document(document: Attachment) -> TraceFound:
    """The place of a document that was brought in with what may not be read now: its number stays."""
    return TraceFound("Withheld", WITHHELD_DOCUMENT.format(number=document.document))
