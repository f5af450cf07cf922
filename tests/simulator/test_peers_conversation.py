"""The conversation of `bench/peers.py`: the simulator plays it, and its last answer has every fact."""

from __future__ import annotations

import re

import pytest

from lamella_simulator.testing import InProcess
from peering.conversation import Conversation

from .texts import Json, user

pytestmark = pytest.mark.anyio


async def test_a_plain_client_gets_every_call_answer_and_fact(provider: InProcess) -> None:
    short = Conversation(turns=4)
    await provider.script(**short.replies())
    await provider.post("/_sim/settings", {"default_reply": "else"})
    messages: list[Json] = []
    for turn in range(1, short.turns + 1):
        messages.append(user(short.question(turn)))
        call = (await provider.messages({"system": short.system, "messages": messages})).json
        (asked,) = call["content"]
        assert asked["input"] == {"topic": f"{turn:02}"}
        result = {"type": "tool_result", "tool_use_id": asked["id"], "content": short.result(asked["input"]["topic"])}
        messages += [{"role": "assistant", "content": call["content"]}, user(result)]
        answer = (await provider.messages({"system": short.system, "messages": messages})).json
        assert answer["content"][0]["text"].startswith(f"Part {turn:02} is in order.")
        messages.append({"role": "assistant", "content": answer["content"]})
    summary = (await provider.messages({"messages": [user(f"Summarise this.\n{short.result('02')}\nThank you.")]})).json
    assert summary["content"][0]["text"] == "The code of part 02 is FACT-02."
    last = (await provider.messages({"messages": [*messages, user(short.last_question)]})).json
    assert set(re.findall(r"FACT-\d\d", last["content"][0]["text"])) == short.facts == {"FACT-02", "FACT-04"}
    assert short.said == {"FACT-04"}
