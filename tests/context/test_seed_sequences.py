"""The sequences of the seeds, letter for letter, request by request.

A result that was replaced is written `tr`; the seeds write TR for both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from lamella.context.assemble import Assembled, assemble, letters
from lamella.context.input import ContextInput
from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Agent, Project, Summary
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.messages import Attachment, Step, StopReason, Text, ToolCall, ToolResult, Turn, UserMessage
from lamella.core.prompt import Sampling, ToolSpec
from lamella.llm.model_table import ModelTable

MODEL = ModelTable.shipped().facts("claude-opus-5", "anthropic")
SEARCH = ToolSpec("search", "Looks words up.", '{"type":"object"}')
AGENT = Agent("agent_1", "Pirate", "Talk like a pirate.")
FILE = Attachment("file_p", 9, "plan.md", "text/markdown", 10, 4, "The plan.")
PROJECT = Project("proj_1", "Ship", files=(FILE,))


def user(number: int, *, files: bool = False, dynamic: str = "") -> UserMessage:
    attached = (replace(FILE, file_id=f"file_{number}", document=number),) if files else ()
    sent = datetime(2026, 3, 1, 9, number, tzinfo=UTC)
    return UserMessage(f"msg_{number}", f"Question {number}?", sent, "UTC", 4, attached, dynamic)


def call(turn: int, index: int) -> Step:
    id = f"call_{turn}_{index}"
    return Step(
        id=f"step_{turn}_{index}",
        model=MODEL.name,
        parts=(ToolCall(id, "search", '{"query":"x"}'),),
        stop_reason=StopReason.TOOL_CALLS,
        made_after="",
        tokens=9,
        results=(ToolResult(id, "search", "A long result about x."),),
    )


def answer(turn: int) -> Step:
    return Step(f"step_{turn}_end", MODEL.name, (Text(f"Answer {turn}."),), StopReason.END_TURN, "", 4)


@dataclass(frozen=True)
class Window:
    """One request of a story, built up from the finished turns and the running one."""

    layout: str
    history: tuple[Turn, ...]
    turn: Turn
    agent: Agent | None = None
    project: Project | None = None
    summaries: tuple[Summary, ...] = ()
    reminder: str = ""
    decisions: tuple[Decision, ...] = ()

    def assembled(self) -> Assembled:
        context = ContextInput(
            model=MODEL,
            budget=100_000,
            sampling=Sampling(1000),
            system="You are helpful.",
            tools=(SEARCH,),
            history=self.history,
            turn=self.turn,
            reminder=self.reminder,
            decisions=self.decisions,
            agent=self.agent,
            project=self.project,
            summaries=self.summaries,
            searched=bool(self.reminder),
        )
        return assemble(context, LAYOUTS[self.layout])

    def letters(self) -> str:
        return letters(self.assembled().prompt.segments)

    def texts(self) -> list[tuple[str, str]]:
        """Role and text of every message."""
        return [
            (message.role, "".join(part.text for part in message.parts if isinstance(part, Text)))
            for segment in self.assembled().prompt.segments
            for message in segment.messages
        ]


def finished(number: int, *steps: Step, files: bool = False, dynamic: str = "") -> Turn:
    return Turn(f"turn_{number}", user(number, files=files, dynamic=dynamic), (*steps, answer(number)))


def running(number: int, *steps: Step, files: bool = False, dynamic: str = "") -> Turn:
    return Turn(f"turn_{number}", user(number, files=files, dynamic=dynamic), steps)


class TestOnyx:
    def test_the_agent_moves_and_the_reminder_comes_after_the_result(self) -> None:
        """S, U1, TC, TR, A1, CA, U2, A2 → S, U1, TC, TR, A1, U2, A2, CA, U3, TC, TR, R, A3."""
        first = finished(1, call(1, 0))
        assert Window("onyx", (first,), running(2), agent=AGENT).letters() == "S U1 TC tr A1 CA U2"
        two = (first, finished(2))
        assert Window("onyx", two, running(3), agent=AGENT).letters() == "S U1 TC tr A1 U2 A2 CA U3"
        with_result = Window("onyx", two, running(3, call(3, 0)), agent=AGENT, reminder="Cite.")
        assert with_result.letters() == "S U1 TC tr A1 U2 A2 CA U3 TC TR R"

    def test_the_file_stays_and_the_project_moves(self) -> None:
        """S, CA, P, F, U1, A1 → S, F, U1, A1, CA, P, U2, A2."""
        first = Window("onyx", (), running(1, files=True), agent=AGENT, project=PROJECT)
        assert first.letters() == "S CA P F U1"
        second = Window("onyx", (finished(1, files=True),), running(2), agent=AGENT, project=PROJECT)
        assert second.letters() == "S F U1 A1 CA P U2"

    def test_the_reminder_moves_to_the_end_of_the_turn(self) -> None:
        """S, U1, TC, TR, R → S, U1, TC, TR, TC, TR, R, A1."""
        assert Window("onyx", (), running(1, call(1, 0)), reminder="Cite.").letters() == "S U1 TC TR R"
        twice = running(1, call(1, 0), call(1, 1))
        assert Window("onyx", (), twice, reminder="Cite.").letters() == "S U1 TC TR TC TR R"

    def test_an_agent_that_replaces_the_system_prompt_does_not_move(self) -> None:
        agent = replace(AGENT, replaces_system=True)
        window = Window("onyx", (finished(1),), running(2), agent=agent)
        assert window.letters() == "S U1 A1 U2"
        assert window.texts()[0] == ("system", "Talk like a pirate.")

    def test_the_system_prompt_has_date_tools_and_after_a_search_citations(self) -> None:
        plain = Window("onyx", (), running(1)).texts()[1][1]
        assert plain.startswith("# Date\nThe current date is Sunday 2026-03-01, the time 09:01.")
        tools = plain.split("\n\n")[1]
        assert tools.splitlines()[0] == "# Tools of this step"
        assert "you are encouraged to" in tools, "the encouragement stands in the section about tools"
        assert "# Citations" not in plain
        searched = Window("onyx", (), running(1, call(1, 0)), reminder="Cite.").texts()[1][1]
        assert "# Citations" in searched

    def test_old_results_are_a_fixed_string_and_arguments_stay(self) -> None:
        step = Window("onyx", (finished(1, call(1, 0)),), running(2)).assembled().prompt.segments
        tool = next(message for segment in step for message in segment.messages if message.role == "tool")
        result = tool.parts[0]
        assert isinstance(result, ToolResult)
        assert result.content.startswith("The result of this call is no longer available.")
        calls = [part for s in step for m in s.messages for part in m.parts if isinstance(part, ToolCall)]
        assert calls[0].arguments == '{"query":"x"}'


class TestWegent:
    def test_dynamic_context_stands_before_the_current_message_and_is_gone_next_turn(self) -> None:
        """System; history; dynamic_context; current user message with its date and time."""
        first = Window("wegent", (), running(1, dynamic="KB: Handbook"))
        assert first.letters() == "S D U1"
        second = Window("wegent", (finished(1, dynamic="KB: Handbook"),), running(2, dynamic="KB: Handbook"))
        assert second.letters() == "S U1 A1 D U2"
        assert second.texts()[3:] == [
            ("user", "KB: Handbook"),
            ("user", "Question 2?\n\n[Sent: Sunday 2026-03-01 09:02 +00:00, UTC]"),
        ]

    def test_without_dynamic_context_nothing_is_inserted(self) -> None:
        history = (finished(1),)
        assert Window("wegent", history, running(2)).letters() == "S U1 A1 U2"
        with_empty = Window("wegent", history, running(2, dynamic="")).assembled()
        assert with_empty == Window("wegent", history, running(2)).assembled()

    def test_results_of_past_turns_stay(self) -> None:
        assert Window("wegent", (finished(1, call(1, 0)),), running(2)).letters() == "S U1 TC TR A1 U2"


class TestLis:
    def test_system_then_summaries_then_messages(self) -> None:
        summaries = (Summary("sess_1", "Parent.", 3), Summary("sess_2", "Own.", 3))
        window = Window("lis", (finished(1),), running(2), summaries=summaries)
        assert window.letters() == "S Σ Σ U1 A1 U2"

    def test_results_up_to_the_boundary_are_the_bare_function_name(self) -> None:
        pruned = Decision(DecisionKind.PRUNE, "results", "step_1_0", "engine", "8k of old results")
        history = (finished(1, call(1, 0), call(1, 1)), finished(2, call(2, 0)))
        window = Window("lis", history, running(3), decisions=(pruned,))
        assert window.letters() == "S U1 TC tr TC TR A1 U2 TC TR A2 U3"
        tool = [m for s in window.assembled().prompt.segments for m in s.messages if m.role == "tool"]
        result = tool[0].parts[0]
        assert isinstance(result, ToolResult)
        assert (result.call_id, result.name, result.content) == ("call_1_0", "search", "search")


class TestLamella:
    def test_agent_and_project_stand_in_front_and_never_move(self) -> None:
        first = Window("lamella", (), running(1, files=True), agent=AGENT, project=PROJECT)
        assert first.letters() == "S CA P F U1"
        second = Window("lamella", (finished(1, files=True),), running(2), agent=AGENT, project=PROJECT)
        assert second.letters() == "S CA P F U1 A1 U2"

    def test_dynamic_context_follows_the_question_and_is_sent_again_only_when_it_changed(self) -> None:
        history = (finished(1, dynamic="KB: A"), finished(2, dynamic="KB: A"))
        window = Window("lamella", history, running(3, dynamic="KB: B"))
        assert window.letters() == "S U1 D A1 U2 A2 U3 D"

    def test_old_results_stay_until_a_boundary_is_recorded(self) -> None:
        history = (finished(1, call(1, 0)),)
        assert Window("lamella", history, running(2)).letters() == "S U1 TC TR A1 U2"
        pruned = Decision(DecisionKind.PRUNE, "results", "step_1_0", "engine", "it pays")
        assert Window("lamella", history, running(2), decisions=(pruned,)).letters() == "S U1 TC tr A1 U2"


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_has_a_place_for_everything(name: str) -> None:
    window = Window(
        name,
        (finished(1, call(1, 0), files=True, dynamic="KB: A"),),
        running(2, call(2, 0), files=True, dynamic="KB: B"),
        agent=AGENT,
        project=PROJECT,
        summaries=(Summary("sess_1", "Before.", 3),),
        reminder="Cite.",
    )
    expected = {
        "lamella": "S CA P Σ F U1 D TC TR A1 F U2 D TC TR R",
        "onyx": "S Σ F U1 TC tr A1 CA P F D U2 TC TR R",
        "lis": "S Σ F U1 TC TR A1 CA P F D U2 TC TR R",
        "wegent": "S Σ F U1 TC TR A1 CA P F D U2 TC TR R",
    }
    assert window.letters() == expected[name]
