"""Which line a request belongs to, what a side call is, and who sends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lamella.core.records import Line
from lamella.gateway.dialects import Dialect, read
from lamella.gateway.matching import (
    Relation,
    answer_digest,
    client_of,
    label_of,
    match,
    session_of,
    title_of_message,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Object = dict[str, Any]


FOUND = (
    "### Task:\nRespond to the user query using the provided context.\n\n### Output:\nProvide a clear response.\n\n"
    '<context>\n<source id="1">The lamp is green.</source>\n</context>\n'
)
"""What Open WebUI puts before a message for which it found something."""


def body(*texts: str, **fields: Any) -> Object:
    """A Chat body whose messages alternate between user and assistant."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], **fields}


def told(system: str, text: str) -> Object:
    """A body with a system prompt and one message."""
    return {"messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]}


def line(sent: Object, answer: str = "", session: str | None = None, id: str = "line", turns: int = 1) -> Line:
    """The line of a client whose newest request was this one."""
    window = read(Dialect.CHAT, sent)
    return Line(
        id=id, client="a client", session=session, dialect=Dialect.CHAT, label="conversation", model="m", opening=1,
        keys=window.keys, tip=window.keys[-1], system=window.system, answer=answer_digest(answer), request_id="r",
        turn_id="t", run_id="u", begun_at=NOON, at=NOON, turns=turns,
    )  # fmt: skip


def found(sent: Object, *lines: Line, session: str | None = None) -> tuple[Relation, str | None, int]:
    one = match(read(Dialect.CHAT, sent), session, lines)
    return one.relation, one.line.id if one.line else None, one.shared


def test_a_request_goes_on_from_the_one_that_it_begins_with() -> None:
    assert found(body("Hi", "Ho", "And?"), line(body("Hi"), "Ho")) == (Relation.NEXT, "line", 1)
    assert found(body("Hi", "Ho", "And?", "So", "Then?"), line(body("Hi", "Ho", "And?"))) == (Relation.NEXT, "line", 3)


def test_of_two_that_begin_alike_it_is_the_one_whose_answer_comes_back() -> None:
    one, other = line(body("Hi"), "Ho", id="one"), line(body("Hi"), "Hey", id="other")
    assert found(body("Hi", "Hey", "And?"), one, other) == (Relation.NEXT, "other", 1)
    assert found(body("Hi", "Ho", "And?"), other, one) == (Relation.NEXT, "one", 1)


def test_the_same_first_words_again_begin_another_line_unless_the_session_is_the_same() -> None:
    assert found(body("Hi"), line(body("Hi"), "Ho")) == (Relation.NEW, None, 0)
    assert found(body("Hi"), line(body("Hi"), "Ho", session="s"), session="s") == (Relation.AGAIN, "line", 1)
    assert found(body("Hi"), line(body("Hi"))) == (Relation.AGAIN, "line", 1), "what got no answer is sent again"


def test_an_edit_after_an_answer_is_a_rewriting() -> None:
    before = line(body("Hi", "Ho", "And?", "So", "Then?"), "Now")
    assert found(body("Hi", "Ho", "And?", "So", "Else?"), before) == (Relation.REWRITTEN, "line", 4)
    assert found(body("Hi", "Ho", "But?"), before) == (Relation.REWRITTEN, "line", 2)


def test_a_rewritten_conversation_does_not_become_a_side_call_that_had_the_same_answer() -> None:
    chat = line(body("Found: green. How is the lamp?"), "Green", id="chat")
    side = replace(line(body("### Task:\nMake search queries."), "Green", id="side"), label="search query")
    sent = body("How is the lamp?", "Green", "Found: red. And now?")
    assert found(sent, side, chat) == (Relation.REWRITTEN, "chat", 0)


def test_what_every_conversation_of_a_program_begins_with_proves_nothing() -> None:
    opening = ("Example?", "Example.", "Yours?", "Mine.")
    before = replace(line(body(*opening, "First question"), "First answer"), opening=5)
    assert found(body(*opening, "Second question"), before) == (Relation.NEW, None, 0)
    moved = body(*opening, "First question, shorter", "First answer", "Next")
    assert found(moved, before) == (Relation.REWRITTEN, "line", 4), "its answer came back"


def test_a_summary_of_the_client_goes_on_with_the_line_of_its_session() -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "look"}}]}
    before = line(body("Hi", "Ho", "And?", **tools), session="s", turns=2)
    summary = body("This session continues: they said hi.", **tools)
    assert found(summary, before, session="s") == (Relation.REWRITTEN, "line", 0)
    assert found(summary, before) == (Relation.NEW, None, 0)
    assert found(body("Write a title"), before, session="s") == (Relation.NEW, None, 0)
    assert found(summary, before, session="another") == (Relation.NEW, None, 0)


@pytest.mark.parametrize(
    ("sent", "label"),
    [
        (body("Write me a title for my novel, please."), "conversation"),
        (body("### Task:\nMake a title.\n<chat_history>\nUSER: Hi\n</chat_history>"), "title"),
        (body("### Task:\nGenerate 1-3 broad tags.\n### Output:\nJSON"), "tags"),
        (body("### Task:\nSuggest 3 follow-up questions.\n### Output:\nJSON"), "follow-ups"),
        (body("USER: Change it\n\nASSISTANT: Done", system="x"), "side call"),
        (body("Is anybody there?", max_tokens=1), "probe"),
        (body("USER: a\nASSISTANT: b\nSummarize the conversation so far."), "compaction"),
        (
            told("You are an engineer that generates short Git commit messages.", "# Diffs:\nAdded a.txt"),
            "commit message",
        ),
        (told("You are a title generator. Say nothing else.", "Name this conversation:"), "title"),
        (told("You answer with a title and an author. Generate nothing else.", "Which book?"), "conversation"),
        (body("### Task:\nMake a title.", tools=[{"type": "function"}]), "conversation"),
        (body("### Task:\nMake a title.", "Which?", "Any."), "conversation"),
        (body(f"{FOUND}Which title has it?"), "conversation"),
        (body(f"{FOUND}"), "side call"),
    ],
)
def test_a_side_call_is_known_by_its_shape(sent: Object, label: str) -> None:
    assert label_of(read(Dialect.CHAT, sent)) == label


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("claude-cli/9.9.1 (external, sdk-cli)", "Claude Code 9.9.1"),
        ("codex_exec/0.9 (Debian 12.0.0; x86_64) dumb", "Codex 0.9"),
        ("AsyncOpenAI/Python 3.1.0", "openai for Python 3.1.0"),
        ("Agents/Python 0.24.0", "openai-agents 0.24.0"),
        ("ai-sdk/openai/3.0.141 ai-sdk/provider-utils/4", "AI SDK 3.0.141"),
        ("ai/6.0.326 ai-sdk/provider-utils/4.0.66 runtime/node.js", "AI SDK 6.0.326"),
        ("curl/8.1", "curl 8.1"),
        ("", "unnamed"),
    ],
)
def test_a_client_is_named_by_its_user_agent(agent: str, name: str) -> None:
    assert client_of({"user-agent": agent}) == name


def test_open_webui_is_named_by_the_id_of_its_chat() -> None:
    headers = {"user-agent": "Python/3.11 aiohttp/3.14.5", "x-openwebui-chat-id": "e"}
    assert (client_of(headers), session_of(headers, {})) == ("Open WebUI", "e")


def test_a_session_is_read_where_clients_put_it() -> None:
    assert session_of({"x-claude-code-session-id": "a"}, {}) == "a"
    assert session_of({"session-id": "b"}, {"prompt_cache_key": "c"}) == "b"
    assert session_of({}, {"metadata": {"user_id": '{"session_id":"d"}'}}) == "d"
    assert session_of({}, {"prompt_cache_key": "c"}) == "c"
    odd: list[Object] = [{}, {"metadata": {"user_id": "{"}}, {"metadata": []}, {"prompt_cache_key": 7}]
    assert [session_of({}, one) for one in odd] == [None] * 4


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("<system-reminder>\nUse this.\n</system-reminder>\n\nHello", "Hello"),
        ("<a>1</a><b>2</b>Hello <i>you</i>", "Hello <i>you</i>"),
        ("<session>\nHello\n</session>", "Hello"),
        ("<unclosed> Hello", "Hello"),
        (f"{FOUND}How is the lamp?", "How is the lamp?"),
        ("### Task:\nGenerate a title.", "Generate a title."),
        ("Do this:\n### Task:\nMow the lawn.", "Do this:\n### Task:\nMow the lawn."),
        ("", ""),
    ],
)
def test_a_line_is_called_after_what_a_person_wrote(text: str, title: str) -> None:
    assert title_of_message(text) == title
