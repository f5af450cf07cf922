"""The loop as a library, over every wire: a provider reads from its cache what the turn before wrote, as predicted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lamella.agent import AgentTurn, run
from lamella.core.packets import RequestStarted, UsageBody, UsagePacket
from lamella.core.ports import ChatModel
from lamella.llm import anthropic, openai, responses
from lamella.llm.model_table import ModelTable
from lamella_simulator import Provider, simulated

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "agent.md"
Connect = Callable[[Provider], ChatModel]
FACTS = ModelTable.shipped().facts


def over_messages(provider: Provider) -> ChatModel:
    facts = FACTS("claude-haiku-4-5", "anthropic")
    return anthropic.connect(facts, base_url=provider.url, key=provider.key, timeout=10, retries=0)


def over_chat(provider: Provider) -> ChatModel:
    facts = FACTS("gpt-5.6", "openai")
    return openai.connect(facts, base_url=provider.openai_url, key=provider.key, timeout=10, retries=0)


def over_responses(provider: Provider) -> ChatModel:
    facts = FACTS("gpt-5.6", "openai")
    return responses.connect(facts, base_url=provider.openai_url, key=provider.key, timeout=10, retries=0)


@pytest.mark.parametrize("connect", [over_messages, over_chat, over_responses])
async def test_the_next_turn_reads_what_this_one_wrote(connect: Connect) -> None:
    manual = "Close the valve before you open the tank, and write down the pressure. " * 400
    with simulated() as provider:
        model = connect(provider)
        bills: list[UsageBody] = []
        predicted: list[int] = []
        told = 0.0
        turn = AgentTurn("What comes first?", system=manual)
        for text in ("And then?", "Why?", ""):
            answer = run(model, turn)
            async for packet in answer:
                if isinstance(packet, RequestStarted):
                    predicted.append(packet.predicted_read)
                if isinstance(packet, UsagePacket):
                    bills.append(packet.usage)
            assert answer.error is None
            told += answer.cost
            turn = answer.then(text)
        await model.close()
        assert told == pytest.approx(provider.cost)
    assert bills[0].cache_read == predicted[0] == 0
    for bill, foreseen in zip(bills[1:], predicted[1:], strict=True):
        assert bill.cache_read > 4_000
        assert abs(bill.cache_read - foreseen) < bill.input * 0.05


async def test_the_page_of_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """Its first program runs as it stands, against the simulator."""
    program = PAGE.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Callable[..., Awaitable[None]]] = {}
    exec(program, names)
    with simulated() as provider:
        await names["main"](provider.url, provider.key)
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if line.strip()]) >= 3
    assert [request.status for request in provider.requests] == [200, 200]
