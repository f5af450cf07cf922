from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.core.errors import NotFound
from lamella.core.records import ConversationChange, PageQuery
from lamella.storage import Store

from .examples import ANN, BOB, NOON, agent, conversation, minutes

pytestmark = pytest.mark.anyio


async def test_an_agent_comes_back_as_it_was(store: Store) -> None:
    stored = await store.library.add_agent(ANN, agent(), NOON)
    assert (stored.agent, stored.created_at, stored.updated_at) == (agent(), NOON, NOON)
    plain = replace(agent("agent_2"), reminder="", replaces_system=False, tools=None, model=None, layout=None)
    await store.library.add_agent(ANN, plain, NOON)
    assert (await store.library.agent(ANN, "agent_2")).agent == plain
    assert (await store.library.agents(ANN, PageQuery())).data == (await store.library.agent(ANN, "agent_2"), stored)


async def test_only_a_change_is_a_new_revision(store: Store) -> None:
    await store.library.add_agent(ANN, agent(), NOON)
    changed = await store.library.change_agent(
        ANN, "agent_1", lambda now: replace(now, prompt="You cut texts."), minutes(1)
    )
    again = await store.library.change_agent(
        ANN, "agent_1", lambda now: replace(now, prompt="You cut texts."), minutes(2)
    )
    assert changed == again == await store.library.agent(ANN, "agent_1")
    assert (changed.agent.prompt, changed.agent.revision, changed.updated_at) == ("You cut texts.", 2, minutes(1))


async def test_a_conversation_goes_on_without_an_agent_that_is_gone(store: Store) -> None:
    await store.library.add_agent(ANN, agent(), NOON)
    await store.conversations.create_conversation(ANN, replace(conversation(), agent_id="agent_1"))
    assert (await store.conversations.conversation(ANN, "conv_1")).agent_id == "agent_1"
    await store.library.delete_agent(ANN, "agent_1")
    assert (await store.conversations.conversation(ANN, "conv_1")).agent_id is None


async def test_a_conversation_takes_only_what_is_its_owners(store: Store) -> None:
    await store.library.add_agent(BOB, agent(), NOON)
    with pytest.raises(NotFound) as caught:
        await store.conversations.create_conversation(ANN, replace(conversation(), agent_id="agent_1"))
    assert caught.value.param == "agent_id"
    await store.conversations.create_conversation(ANN, conversation())
    for change in (ConversationChange(agent_id="agent_1", title="Mine"), ConversationChange(project_id="proj_1")):
        with pytest.raises(NotFound):
            await store.conversations.change_conversation(ANN, "conv_1", change, NOON)
    assert replace(await store.conversations.conversation(ANN, "conv_1"), session_id="") == conversation()


async def test_an_agent_is_chosen_and_let_go(store: Store) -> None:
    await store.library.add_agent(ANN, agent(), NOON)
    await store.conversations.create_conversation(ANN, conversation())
    for chosen in ("agent_1", None):
        change = ConversationChange(agent_id=chosen, layout="onyx", marker_policy="off")
        changed = await store.conversations.change_conversation(ANN, "conv_1", change, NOON)
        assert (changed.agent_id, changed.layout, changed.marker_policy) == (chosen, "onyx", "off")
    assert (
        await store.conversations.change_conversation(ANN, "conv_1", ConversationChange(title="T"), NOON)
    ).agent_id is None
