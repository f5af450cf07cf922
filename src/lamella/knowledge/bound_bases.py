"""Which knowledge bases a message can search, and who bound each: the conversation, its agent, the message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.core.errors import NotFound
from lamella.core.records import Caller
from lamella.storage.knowledge.store import KnowledgeStore


@dataclass(frozen=True, slots=True)
class BoundBase:
    """A base by its id, and the conversation, message or agent that it is bound to. Access is checked separately."""

    id: str
    to: tuple[str, ...]


async def bound_bases(
    store: KnowledgeStore, caller: Caller, conversation_id: str, agent_id: str | None, named: Sequence[str]
) -> tuple[BoundBase, ...]:
    """The bases of the conversation, then those `named` by the message, then those of the agent, each once. Raises
    `NotFound`.
    """
    found: dict[str, list[str]] = {}
    of_agent = await _of_agent(store, caller, agent_id) if agent_id is not None else ()
    bound = {"conversation": await store.bound_bases(caller, conversation_id), "message": named, "agent": of_agent}
    for subject, base_ids in bound.items():
        for base_id in dict.fromkeys(base_ids):
            found.setdefault(base_id, []).append(subject)
    return tuple(BoundBase(base_id, tuple(to)) for base_id, to in found.items())


async def _of_agent(store: KnowledgeStore, caller: Caller, agent_id: str) -> Sequence[str]:
    try:
        return await store.bound_bases(caller, agent_id)
    except NotFound:
        return ()
