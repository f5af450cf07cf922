"""What the offline answerer says: quotes with numbers, honest misses, reads of listed files; over both wires."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from lamella_simulator.answerer.answer import reply
from lamella_simulator.answerer.conversation import Called, Conversation, PastMessage, Piece
from lamella_simulator.replies import Reply
from lamella_simulator.testing import InProcess
from measures import MOST_GROWTH, growth

from ..texts import Json

LEASE = """\
LEASE AGREEMENT

1. Rent
The monthly rent is EUR 1,450 and is due on the third working
day of each month. Late payment costs five percent interest.

2. Term
The lease starts on 1 May 2026. Either party may terminate it with
three months' notice, as shown in [4].
"""
VERTRAG = "Die Kündigungsfrist beträgt sechs Wochen. Die Kaution wird nach z.B. zwei Monaten erstattet."


def documents(*entries: Json, prefix: str = "Files of this conversation:\n") -> PastMessage:
    numbered = [{"document": index, **entry} for index, entry in enumerate(entries, start=1)]
    return PastMessage("user", prefix + json.dumps({"documents": numbered}, ensure_ascii=False))


LEASE_FILE: Json = {"title": "lease.pdf", "metadata": "2 pages", "contents": LEASE}
VERTRAG_FILE: Json = {"title": "vertrag.txt", "contents": VERTRAG}
LISTED: Json = {"title": "report.pdf", "file_id": "f1"}


def ask(*pieces: Piece | str, tools: tuple[str, ...] = ()) -> Reply:
    said = tuple(PastMessage("user", piece) if isinstance(piece, str) else piece for piece in pieces)
    return reply(Conversation(said, frozenset(tools)))


def result(contents: str, **more: object) -> PastMessage:
    entry = {"document": 1, "title": "report.pdf", "file_id": "f1", "contents": contents}
    return PastMessage("tool", json.dumps({"documents": [entry], **more}))


def test_an_answer_quotes_the_best_sentence_with_its_number() -> None:
    answer = ask(documents(LEASE_FILE), "How much is the rent?\n[Sent: Monday, 2 March 2026 09:00]")
    assert answer.text.startswith("In **lease.pdf**:")
    assert "“The monthly rent is EUR 1,450 and is due on the third working day of each month.” [1]" in answer.text


def test_the_documents_of_a_project_stand_behind_its_instructions() -> None:
    before = "Instructions of the project “Flat”:\nBe exact.\n\nSee {2} below.\n\nDocuments, as JSON.\n"
    answer = ask(documents(LEASE_FILE, prefix=before), "How much is the rent?")
    assert "“The monthly rent is EUR 1,450" in answer.text


def test_a_number_in_the_source_cannot_pass_for_a_citation() -> None:
    text = ask(documents(LEASE_FILE), "How can a party terminate?").text
    assert "three months' notice, as shown in \\[4].” [1]" in text


def test_every_quote_is_in_its_document() -> None:
    answer = ask(documents(LEASE_FILE, VERTRAG_FILE), "When is the rent due and what does late payment cost?")
    quotes = [part.split("”")[0].replace("\\[", "[") for part in answer.text.split("“")[1:]]
    flat = " ".join(LEASE.split())
    assert quotes
    assert all(quote in flat for quote in quotes)


def test_another_language_and_a_compound_word() -> None:
    assert (
        "Die Kündigungsfrist beträgt sechs Wochen.” [2]"
        in ask(documents(LEASE_FILE, VERTRAG_FILE), "Wie lang ist die Frist?").text
    )


@pytest.mark.parametrize(
    ("contents", "question", "quote"),
    [
        ("北京是中国的首都。人口约有两千一百万。", "北京的人口是多少？", "人口约有两千一百万。"),
        ("Срок договора — два года. Оплата ежемесячная.", "Какой срок у договора?", "Срок договора — два года."),
        ("Le loyer est de 900 €. La caution est de deux mois.", "Quel est le loyer ?", "Le loyer est de 900 €."),
        ("会議は東京で行われます。参加費は無料です。", "参加費はいくらですか？", "参加費は無料です。"),
    ],
)
def test_many_languages(contents: str, question: str, quote: str) -> None:
    assert f"“{quote}” [1]" in ask(documents({"title": "t", "contents": contents}), question).text


def test_a_table_row_is_quoted_whole() -> None:
    table = "Item   Price   Unit\nHosting   1,200   month\nSupport   800   month"
    assert "“Support | 800 | month” [1]" in ask(documents({"title": "t", "contents": table}), "Price of support?").text


def test_no_overlap_is_said_plainly() -> None:
    answer = ask(documents(LEASE_FILE, VERTRAG_FILE), "Who won the world cup?")
    assert "**lease.pdf** and **vertrag.txt**" in answer.text
    assert "nothing to quote" in answer.text
    assert "“" not in answer.text


def test_a_partial_match_says_that_it_is_one() -> None:
    answer = ask(documents(LEASE_FILE), "Which party keeps a penguin or a giraffe?")
    assert answer.text.startswith("No sentence has all the words of your question.")


def test_the_newest_document_wins_a_tie() -> None:
    same = "The deadline is in June."
    pieces = (
        documents({"title": "old", "contents": same}),
        documents({"document": 2, "title": "new", "contents": same}),
    )
    assert "[2]" in ask(*pieces, "When is the deadline?").text


def test_a_follow_up_takes_words_from_the_question_before() -> None:
    files = documents(
        {"title": "north.txt", "contents": "Revenue in the north was 12 million. It rains there."},
        {"title": "south.txt", "contents": "The sun shines. Revenue in the south was 7 million."},
    )
    answer = ask(
        files, "What was the revenue in the first document?", PastMessage("assistant", "12"), "And the second one?"
    )
    assert "“Revenue in the south was 7 million.” [2]" in answer.text
    assert "[1]" not in answer.text


@pytest.mark.parametrize("question", ["Summarise this.", "What is this about?", "Fasse das zusammen", "要約して"])
def test_a_summary_quotes_central_sentences_in_their_order(question: str) -> None:
    text = ask(documents(LEASE_FILE), question).text
    assert "lease.pdf" in text
    assert 2 <= text.count("” [1]") <= 4
    assert text.index("monthly rent") < text.index("Either party")


def test_a_summary_is_of_the_document_it_names() -> None:
    text = ask(documents(LEASE_FILE, VERTRAG_FILE), "Give me a summary of the lease").text
    assert "[2]" not in text


def test_reminders_and_documents_are_not_the_question() -> None:
    reminder = "<system-reminder>What is the capital of France?</system-reminder>"
    answer = ask(documents(LEASE_FILE), "How much is the rent?", documents(VERTRAG_FILE), reminder)
    assert "EUR 1,450" in answer.text


def test_without_documents_it_says_what_it_is() -> None:
    text = ask("What is the capital of France?").text
    assert "offline demonstration" in text
    assert "not an AI model" in text
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LAMELLA_MODEL"):
        assert name in text


@pytest.mark.parametrize("greeting", ["Hi", "hello there!", "Guten Tag", "Bonjour", "Привет", "你好"])
def test_a_greeting_is_answered_shortly(greeting: str) -> None:
    assert ask(greeting).text.startswith("Hello!")
    assert len(ask(greeting).text) < len(ask("What is the capital of France?").text)


def test_a_listed_file_is_read_when_nothing_open_answers() -> None:
    answer = ask(documents(LISTED), "What was the revenue?", tools=("read_file",))
    assert "report.pdf" in answer.text
    (call,) = answer.tool_calls
    assert (call.name, call.arguments) == ("read_file", {"file_id": "f1", "query": "What was the revenue?"})


def test_an_open_document_that_answers_needs_no_other_file() -> None:
    answer = ask(documents(LEASE_FILE, {**LISTED, "document": 2}), "How much is the rent?", tools=("read_file",))
    assert not answer.tool_calls


def test_a_file_that_the_question_names_is_read_anyway() -> None:
    answer = ask(documents(LEASE_FILE, LISTED), "How much is the rent in the report?", tools=("read_file",))
    assert answer.tool_calls[0].arguments["file_id"] == "f1"


def test_what_was_read_is_quoted() -> None:
    call = Called("read_file", {"file_id": "f1"})
    turn = (documents(LISTED), "What was the revenue?", call, result("Revenue was 5 million.", next_offset=900))
    assert ask(*turn, tools=("read_file",)).text.endswith("“Revenue was 5 million.” [1]")


def test_it_reads_on_twice_and_then_admits_defeat() -> None:
    pieces: list[Piece | str] = [documents(LISTED), "What was the revenue?"]
    offsets = []
    for index in range(4):
        answer = ask(*pieces, tools=("read_file",))
        if not answer.tool_calls:
            break
        offsets.append(answer.tool_calls[0].arguments.get("offset"))
        pieces += [Called("read_file", answer.tool_calls[0].arguments), result("Nothing here.", next_offset=index + 1)]
    assert offsets == [None, 1, 2]
    assert "nothing to quote" in answer.text


def test_a_file_that_cannot_be_read_is_not_read_again() -> None:
    call = Called("read_file", {"file_id": "f1"})
    answer = ask(documents(LISTED), "Revenue?", call, PastMessage("tool", "error: gone"), tools=("read_file",))
    assert not answer.tool_calls
    assert "could not read **report.pdf**" in answer.text


def test_a_text_pruned_since_is_read_again_in_a_new_turn() -> None:
    earlier = (documents(LISTED), "Revenue?", Called("read_file", {"file_id": "f1"}), PastMessage("tool", "[pruned]"))
    answer = ask(*earlier, PastMessage("assistant", "5"), "And the costs of the report?", tools=("read_file",))
    assert answer.tool_calls


BASES = PastMessage("user", "Knowledge bases that can be searched here:\n- Flats (id: kb_1)")
ASKED = "How much is the rent?\n[Sent: Monday, 2 March 2026 09:00]"
SEARCHED = Called("knowledge_base_search", {"query": "How much is the rent?"})


def search(*pieces: Piece | str) -> Reply:
    return ask(*pieces, tools=("read_file", "knowledge_base_search"))


def test_knowledge_bases_are_searched_once_and_quoted() -> None:
    asked: tuple[Piece | str, ...] = (ASKED, BASES)
    [call] = search(*asked).tool_calls
    assert (call.name, call.arguments) == ("knowledge_base_search", {"query": "How much is the rent?"})
    answer = search(*asked, SEARCHED, result("The rent is EUR 900 a month."))
    assert (answer.tool_calls, answer.text) == ((), "In **report.pdf**:\n\n“The rent is EUR 900 a month.” [1]")
    nothing = search(*asked, SEARCHED, PastMessage("tool", '{"documents": [], "note": "Nothing was found."}'))
    assert (nothing.tool_calls, "found no sentence" in nothing.text) == ((), True)


def test_no_base_is_searched_where_none_is_named_or_a_document_answers() -> None:
    assert not search(ASKED).tool_calls
    assert not search(documents(LEASE_FILE), BASES, ASKED).tool_calls
    assert not ask(ASKED, BASES).tool_calls


@pytest.mark.parametrize(("question", "picked"), [("May tenants leave?", 1), ("How are ships painted?", 0)])
def test_of_a_form_the_second_choice_is_picked_if_a_passage_fits(question: str, picked: int) -> None:
    shown = {"passages_are": "data", "passages": [{"number": 1, "text": "the tenants leave in [figure]"}]}
    fields = [{"name": "Is there something?", "choices": {"0": "no", "1": "yes"}}] * 2
    said = ask(json.dumps({"question": question, "fields": fields, **shown}))
    assert json.loads(said.text)["choices"] == [picked, picked]
    assert json.loads(ask(json.dumps({"question": question, **shown})).text)["decision"] in ("answer", "refuse")


def test_what_a_restricted_base_lets_out_is_told_in_its_words() -> None:
    part = {"knowledge_base": "Flats", "access": "restricted", "decision": "answer", "summary": "They deal with it."}
    refused = {"knowledge_base": "Cars", "access": "restricted", "decision": "refuse", "what_to_do": "Ask its owner."}
    told = PastMessage("tool", json.dumps({"restricted": [part, refused]}))
    answer = search(ASKED, BASES, SEARCHED, told)
    assert "**Flats** may only be used in part: They deal with it." in answer.text
    assert "**Cars** may only be used in part: Ask its owner." in answer.text


def test_the_work_for_a_summary_grows_with_the_text_and_no_faster() -> None:
    draw = random.Random(1)
    stems = ["".join(draw.choices("abcdefghij", k=draw.randint(3, 9))) for _ in range(1_500)]
    lines = [" ".join(draw.choices(stems, k=11)).capitalize() + ".\n" for _ in range(250)]

    def summarise(contents: str) -> None:
        ask(documents({"title": "long.pdf", "contents": contents}), "Summarise this.")

    assert growth(summarise, "".join(lines)) < MOST_GROWTH


@pytest.mark.anyio
async def test_both_wires_say_the_same(provider: InProcess) -> None:
    texts: list[Any] = [documents(LEASE_FILE).text, "How much is the rent?"]
    parts = [{"type": "text", "text": text} for text in texts]
    one = await provider.messages({"model": "lamella-demo", "messages": [{"role": "user", "content": parts}]})
    other = await provider.chat({"model": "lamella-demo", "messages": [{"role": "user", "content": parts}]})
    assert "EUR 1,450" in one.json["content"][0]["text"]
    assert other.json["choices"][0]["message"]["content"] == one.json["content"][0]["text"]


@pytest.mark.anyio
async def test_a_tool_loop_over_both_wires(provider: InProcess) -> None:
    question = [
        {"role": "user", "content": documents(LISTED).text},
        {"role": "user", "content": "What was the revenue?"},
    ]
    schema = {"type": "object", "properties": {}}
    claude: Json = {"model": "lamella-demo", "messages": question}
    claude["tools"] = [{"name": "read_file", "input_schema": schema}]
    called = (await provider.messages(claude)).json["content"]
    read = {"type": "tool_result", "tool_use_id": called[-1]["id"], "content": result("Revenue was 5 million.").text}
    grown = [*question, {"role": "assistant", "content": called}, {"role": "user", "content": [read]}]
    final = await provider.messages({**claude, "messages": grown})
    assert "“Revenue was 5 million.” [1]" in final.json["content"][0]["text"]

    gpt: Json = {"model": "lamella-demo", "messages": question}
    gpt["tools"] = [{"type": "function", "function": {"name": "read_file", "parameters": schema}}]
    message = (await provider.chat(gpt)).json["choices"][0]["message"]
    answer = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": read["content"]}
    final = await provider.chat({**gpt, "messages": [*question, message, answer]})
    assert "“Revenue was 5 million.” [1]" in final.json["choices"][0]["message"]["content"]


@pytest.mark.anyio
async def test_thinking_is_shown_when_asked_for(provider: InProcess) -> None:
    content = [{"type": "text", "text": text} for text in (documents(LEASE_FILE).text, "How much is the rent?")]
    body: Json = {"model": "lamella-demo", "messages": [{"role": "user", "content": content}]}
    quiet = (await provider.messages(body)).json["content"]
    aloud = (await provider.messages({**body, "thinking": {"type": "adaptive"}})).json["content"]
    assert [block["type"] for block in quiet] == ["text"]
    assert aloud[0]["thinking"].startswith("Looking through 1 document, 7 sentences, for: rent")
