"""Agents as models: a client's history is found by what it saw, and all else of it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.agent_models import AgentRequest, BegunAnswer, agent_models, found_agent
from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.commands.parse import TypedCommand
from lamella.core.agents import Agent
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.json import encode_text
from lamella.core.messages import Part, Reasoning, Text, ToolCall, ToolResult, TurnStatus
from lamella.core.prompt import PromptMessage
from lamella.core.records import PageQuery, Place, TurnRecord
from lamella.gateway.histories import read_history
from lamella.llm.scripted import Gate, ScriptedModel, ScriptedModels, calling, saying
from lamella.settings import read_settings
from scripted_tools import WebSearch, finding

pytestmark = pytest.mark.anyio

ALL = PageQuery(100, None, "asc")


def user(text: str) -> PromptMessage:
    return PromptMessage("user", (Text(text),))


def assistant(*parts: str | Part) -> PromptMessage:
    return PromptMessage("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def app(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[App]:
    async with open_app(
        read_settings(data=tmp_path), models=ScriptedModels(model), more_tools=(WebSearch(),)
    ) as opened:
        yield opened


@pytest.fixture
async def agent(app: App) -> Agent:
    return (await app.library.create_agent(LOCAL_OWNER, {"name": "Pilot", "prompt": "You know tides."})).agent


async def begun(app: App, agent: Agent, messages: Sequence[PromptMessage], instructions: str = "") -> BegunAnswer:
    request = AgentRequest(agent, read_history(messages), instructions, "openai", "a test")
    return await app.agents.begin(LOCAL_IDENTITY, agent, request)


async def ended(app: App, answer: BegunAnswer) -> TurnRecord:
    async for _ in app.packets(answer.turn_id):
        pass
    turn = await app.store.turns.turn(LOCAL_OWNER, answer.turn_id)
    await app.agents.ended(LOCAL_OWNER, answer, [Text(turn.run.answer)])
    return turn


async def asked(app: App, agent: Agent, messages: Sequence[PromptMessage], instructions: str = "") -> TurnRecord:
    turn = await ended(app, await begun(app, agent, messages, instructions))
    assert (turn.status, turn.error) == (TurnStatus.FINISHED, None)
    return turn


def blocks(model: ScriptedModel, number: int) -> list[bytes]:
    """The blocks of a request, without the reminder at its end."""
    return [block.data for block in model.requests[number].blocks if block.segment != "reminder"]


def texts(model: ScriptedModel, number: int) -> str:
    return encode_text(model.body(model.requests[number]))


async def test_the_steps_that_a_client_never_saw_are_there_when_its_history_comes_back(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    echo = calling(finding("c1", "HIDDEN RESULT"), text="I look.")
    model.then(echo, saying("At noon."), saying("At one."), saying("At two."))
    first = await asked(app, agent, [user("When?")], "Answer in one word.")
    history = [user("When?"), assistant(first.run.answer), user("And tomorrow?")]
    second = await asked(app, agent, history, "Answer in one word.")
    third = await asked(app, agent, [*history, assistant("At one."), user("And then?")], "Answer in one word.")
    assert (second.parent, third.parent) == (Place(first.id, first.run.id), Place(second.id, second.run.id))
    assert "HIDDEN RESULT" in texts(model, 2)
    for number in (1, 2, 3):
        before = blocks(model, number - 1)
        assert blocks(model, number)[: len(before)] == before
    assert texts(model, 3).count("Answer in one word.") == 1
    assert "You know tides." in texts(model, 0)


async def test_what_is_not_known_of_a_history_is_stored_as_turns(app: App, agent: Agent, model: ScriptedModel) -> None:
    model.then(saying("Nine."), saying("Ten."))
    call, result = ToolCall("x1", "lookup", '{"at":"ebb"}'), ToolResult("x1", "lookup", "Eight.")
    told = [
        user("Hello."),
        assistant(Reasoning("Hm.", "a seal of elsewhere"), "Hi."),
        user("When is the ebb?"),
        assistant("A moment.", call),
        PromptMessage("tool", (result,)),
        assistant("At eight."),
        user("And the flood?"),
    ]
    turn = await asked(app, agent, told)
    path = await app.store.turns.path(LOCAL_OWNER, turn.conversation_id)
    assert [one.user.text for one in path] == ["Hello.", "When is the ebb?", "And the flood?"]
    assert [step.text for step in path[1].steps] == ["A moment.", "At eight."]
    assert path[1].steps[0].results == (result,)
    assert "a seal of elsewhere" not in texts(model, 0)
    again = await asked(app, agent, [*told, assistant("Nine."), user("Sure?")])
    assert (again.conversation_id, again.parent) == (turn.conversation_id, Place(turn.id, turn.run.id))
    assert blocks(model, 1)[: len(blocks(model, 0))] == blocks(model, 0)


async def test_the_same_request_twice_and_an_edited_question_are_branches(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    model.then(*(saying(f"Answer {number}.") for number in range(5)))
    first = await asked(app, agent, [user("One?")])
    history = [user("One?"), assistant("Answer 0."), user("Two?")]
    turns = [await asked(app, agent, history), await asked(app, agent, history)]
    turns.append(await asked(app, agent, [*history[:2], user("Two, or three?")]))
    again = await asked(app, agent, [user("One?")])
    assert {turn.conversation_id for turn in (*turns, again)} == {first.conversation_id}
    assert {turn.parent for turn in turns} == {Place(first.id, first.run.id)}
    assert again.parent == Place()


async def test_an_edited_answer_is_a_branch_with_the_clients_words(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    model.then(*(saying(f"Answer {number}.") for number in range(3)))
    first = await asked(app, agent, [user("One?")])
    await asked(app, agent, [user("One?"), assistant("Answer 0."), user("Two?")])
    edited = [user("One?"), assistant("Answer 0."), user("Two?"), assistant("EDITED."), user("Three?")]
    third = await asked(app, agent, edited)
    path = await app.store.turns.path(LOCAL_OWNER, first.conversation_id)
    assert [turn.steps[-1].text for turn in path] == ["Answer 0.", "EDITED.", "Answer 2."]
    assert path[0].id == first.id
    assert "Answer 1." not in texts(model, 2)
    assert third.parent.turn_id == path[1].id


async def test_two_requests_at_once_on_the_same_history_are_both_answered(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then(calling(finding("c1", "HIDDEN RESULT")), saying("Answer."), [gate, *saying("Slow.")])
    model.then(saying("Quick."), saying("Quicker."))
    first = await asked(app, agent, [user("One?")], "Be brief.")
    history = [user("One?"), assistant("Answer."), user("Two?")]
    slow = await begun(app, agent, history, "Be brief.")
    await gate.reached.wait()
    quick = await asked(app, agent, history, "Be brief.")
    after = await asked(app, agent, [*history, assistant("Quick."), user("Three?")], "Be brief.")
    gate.opened.set()
    turn = await ended(app, slow)
    assert (turn.run.answer, quick.run.answer) == ("Slow.", "Quick.")
    assert turn.conversation_id == first.conversation_id
    assert first.conversation_id != quick.conversation_id == after.conversation_id
    assert "HIDDEN RESULT" in texts(model, 3)
    assert blocks(model, 3) == blocks(model, 2), "the copy has the same window"
    assert blocks(model, 4)[: len(blocks(model, 3))] == blocks(model, 3)
    lines = {line.id: line for line in (await app.store.lines.lines(LOCAL_OWNER, ALL)).data}
    assert lines[quick.conversation_id].usage == quick.usage + after.usage


async def test_many_requests_at_once_on_a_new_history_are_all_answered(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    model.then(*(saying("Answer.") for _ in range(6)))
    turns = await asyncio.gather(*(asked(app, agent, [user("One?")]) for _ in range(6)))
    assert {turn.run.answer for turn in turns} == {"Answer."}


async def test_a_history_leads_to_its_agent_alone(app: App, agent: Agent, model: ScriptedModel) -> None:
    other = (await app.library.create_agent(LOCAL_OWNER, {"name": "Cook", "prompt": "You know soups."})).agent
    model.then(saying("Answer."), saying("Soup."))
    first = await asked(app, agent, [user("One?")])
    second = await asked(app, other, [user("One?"), assistant("Answer."), user("Two?")])
    assert second.conversation_id != first.conversation_id
    assert "You know tides." not in texts(model, 1)


async def test_conversations_of_clients_are_lines_and_not_in_the_list(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    model.then(calling(finding("c1", "x")), saying("Answer."))
    turn = await asked(app, agent, [user("One?\nAnd more.")])
    assert (await app.store.conversations.conversations(LOCAL_OWNER, ALL)).data == ()
    [line] = (await app.store.lines.lines(LOCAL_OWNER, ALL)).data
    assert (line.id, line.client, line.label, line.title) == (
        turn.conversation_id,
        "a test",
        "agent:Pilot",
        "One? And more.",
    )
    assert (line.requests, line.turns, line.usage, line.cost) == (2, 1, turn.usage, turn.cost)


async def test_a_refused_request_leaves_no_conversation(app: App, agent: Agent, model: ScriptedModel) -> None:
    lost = replace(agent, model="no such model")
    for messages, named in (([user("One?"), assistant("A.")], agent), ([], agent), ([user("One?")], lost)):
        with pytest.raises((InvalidRequest, NotFound)):
            await begun(app, named, messages)
    assert (await app.store.lines.lines(LOCAL_OWNER, ALL)).data == ()
    assert model.requests == []


async def test_a_history_is_found_after_a_restart(model: ScriptedModel, tmp_path: Path) -> None:
    model.then(calling(finding("c1", "HIDDEN RESULT")), saying("At noon."), saying("At one."))
    places: list[str] = []
    for messages in ([user("When?")], [user("When?"), assistant("At noon."), user("Sure?")]):
        async with open_app(
            read_settings(data=tmp_path / "kept"), models=ScriptedModels(model), more_tools=(WebSearch(),)
        ) as app:
            if not places:
                await app.library.create_agent(LOCAL_OWNER, {"name": "Pilot", "prompt": "You know tides."})
            turn = await asked(app, await app.agents.find(LOCAL_OWNER, "agent:pilot"), messages)
            places.append(turn.conversation_id)
    assert places[0] == places[1]
    assert "HIDDEN RESULT" in texts(model, 2)


async def test_a_compacted_conversation_goes_on_from_its_summary_though_its_client_sends_everything(
    model: ScriptedModel, tmp_path: Path
) -> None:
    model.then(saying("Answer 0."), saying("Answer 1."), saying("# Summary\n\nTHE SUMMARY of it."))
    history = [user("FIRST?"), assistant("Answer 0."), user("SECOND?"), assistant("Answer 1."), user("THIRD?")]
    settings = read_settings(data=tmp_path / "compacted", keep_recent_tokens=0)
    async with open_app(settings, models=ScriptedModels(model)) as app:
        agent = (await app.library.create_agent(LOCAL_OWNER, {"name": "Pilot", "prompt": "You know tides."})).agent
        await asked(app, agent, history[:1])
        turn = await asked(app, agent, history[:3])
        await app.chat.rest(turn.conversation_id)
        await app.chat.orders.run(LOCAL_OWNER, turn.conversation_id, TypedCommand("compact", ""))
        async with asyncio.timeout(30):
            while True:
                if len(await app.store.sessions.sessions(LOCAL_OWNER, turn.conversation_id)) > 1:
                    break
                await asyncio.sleep(0.01)
        model.then(saying("Answer 2."), saying("Edited."))
        third = await asked(app, agent, history)
        edited = await asked(app, agent, [*history[:2], user("ANOTHER SECOND?")])
    assert {third.conversation_id, edited.conversation_id} == {turn.conversation_id}
    for number, asked_last in ((3, "THIRD?"), (4, "ANOTHER SECOND?")):
        sent = texts(model, number)
        assert ("FIRST?" in sent, "THE SUMMARY" in sent, asked_last in sent) == (False, True, True)
    assert "SECOND?" not in texts(model, 4).replace("ANOTHER SECOND?", "")


async def test_a_request_that_comes_again_while_its_turn_stops_is_answered_in_the_same_conversation(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    gate = Gate()
    model.then(saying("Answer."), [gate, *saying("Slow.")], saying("Again."))
    first = await asked(app, agent, [user("One?")])
    history = [user("One?"), assistant("Answer."), user("Two?")]
    slow = await begun(app, agent, history)
    await gate.reached.wait()
    await app.chat.stop(LOCAL_OWNER, slow.turn_id)
    again = await asked(app, agent, history)
    assert (again.conversation_id, again.run.answer) == (first.conversation_id, "Again.")


async def test_no_model_is_asked_for_the_title_of_a_clients_conversation(model: ScriptedModel, tmp_path: Path) -> None:
    model.then(saying("At noon."))
    async with open_app(read_settings(data=tmp_path / "titled", titles=True), models=ScriptedModels(model)) as app:
        made = await app.library.create_agent(LOCAL_OWNER, {"name": "Pilot", "prompt": "p"})
        turn = await asked(app, made.agent, [user("When?")])
        await app.chat.rest(turn.conversation_id)
        conversation = await app.store.conversations.conversation(LOCAL_OWNER, turn.conversation_id)
        assert await app.store.jobs.job(LOCAL_OWNER, "title", turn.conversation_id) is None
    assert (conversation.title, len(model.requests)) == ("When?", 1)


async def test_what_is_known_goes_with_its_conversation_and_with_its_agent(
    app: App, agent: Agent, model: ScriptedModel
) -> None:
    model.then(*(saying(f"Answer {number}.") for number in range(3)))
    first = await asked(app, agent, [user("One?")])
    await app.chat.rest(first.conversation_id)
    await app.chat.delete(LOCAL_OWNER, first.conversation_id)
    history = [user("One?"), assistant("Answer 0."), user("Two?")]
    second = await asked(app, agent, history)
    path = await app.store.turns.path(LOCAL_OWNER, second.conversation_id)
    assert [turn.user.text for turn in path] == ["One?", "Two?"]
    keys = [answer.key for answer in read_history([*history, assistant("Answer 1.")]).answers]
    assert len(await app.store.histories.answers(LOCAL_OWNER, agent.id, keys)) == 2
    await app.store.library.delete_agent(LOCAL_OWNER, agent.id)
    assert await app.store.histories.answers(LOCAL_OWNER, agent.id, keys) == {}


# Names


def named(*names: str) -> list[Agent]:
    return [Agent(f"agent_{number}", name, "p") for number, name in enumerate(names)]


def test_a_model_is_named_as_its_agent_and_by_its_id_if_two_have_one_name() -> None:
    found = agent_models(named("Pilot", "Sea / Land", "cook", "Cook "))
    assert [one.name for one in found] == ["agent:Pilot", "agent:Sea / Land", "agent:agent_2", "agent:agent_3"]


@pytest.mark.parametrize(
    ("model", "number"),
    [
        ("agent:Pilot", 0),
        ("agent:pilot", 0),
        ("agent: PILOT ", 0),
        ("agent:agent_0", 0),
        ("agent:Sea%20%2F%20Land", 1),
        ("agent:Sea / Land", 1),
        ("agent%3ASea / Land", 1),
        ("agent:100%", 2),
        ("agent:cook", 3),
        ("agent:Cook", 4),
        ("agent:agent_4", 4),
    ],
)
def test_an_agent_is_found_by_its_name_in_any_case_or_its_id(model: str, number: int) -> None:
    agents = named("Pilot", "Sea / Land", "100%", "cook", "Cook")
    assert found_agent(agents, model) == agents[number]


@pytest.mark.parametrize("model", ["agent:", "agent:Nobody", "agent:COOK", "agent:agent_99"])
def test_no_agent_or_several_are_not_found(model: str) -> None:
    with pytest.raises(NotFound) as refused:
        found_agent(named("Pilot", "cook", "Cook"), model)
    assert refused.value.param == "model"
    assert ("agent:agent_1, agent:agent_2" in str(refused.value.hint)) == (model == "agent:COOK")
