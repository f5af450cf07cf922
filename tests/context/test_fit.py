"""Law 7 by hand: what gives way in windows of a known size, in which order, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamella.context.assemble import Assembled, letters
from lamella.context.choices import INCLUDED, LEFT_OUT, LISTED, usable
from lamella.context.fit import SLACK
from lamella.context.input import MARGIN, ContextInput
from lamella.context.layouts import LAYOUTS
from lamella.context.results import LEAST_CUT
from lamella.core.agents import Agent, Project, Summary
from lamella.core.counting import count_tokens
from lamella.core.decisions import Decision, DecisionKind
from lamella.core.errors import ContextLengthExceeded, NeedsCompaction
from lamella.core.prompt import Kind

from .plans import BINDING, long_text
from .windows import answer, call, document, made, request, result, results, text_of, the, turn, words

THREE = (result("small", words(50)), result("middle", words(5_000)), result("large", words(50_000)))


def after(context: ContextInput, decisions: tuple[Decision, ...]) -> ContextInput:
    """The same request once more, with what was decided."""
    return replace(context, decisions=(*context.decisions, *decisions))


class TestResultsOfOneStep:
    def test_only_the_largest_is_cut_to_what_the_others_leave(self) -> None:
        asked = request(turn(1, call("step_1", *THREE)), budget=20_000)
        window = made(asked)
        shown = results(window)
        assert (shown["small"], shown["middle"]) == (words(50), words(5_000))
        (cut,) = window.decisions
        assert (cut.kind, cut.subject) == (DecisionKind.CUT, "large@claude-opus-5")
        assert cut.numbers["tokens"] == 50_000
        limit = usable(asked)
        assert cut.numbers["room"] >= count_tokens(shown["large"]) >= cut.numbers["room"] - 8
        assert limit * (1 - SLACK) - 10 <= window.report.local <= limit * (1 - SLACK) + 1
        assert "the result of search has about 50000 tokens" in cut.why

    def test_the_cut_says_what_is_missing_and_shows_head_and_tail(self) -> None:
        whole = long_text(50_000)
        window = made(request(turn(1, call("step_1", result("large", whole))), budget=20_000))
        notice, _, rest = results(window)["large"].partition("\n")
        head, tail = (int(figure) for figure in window.decisions[0].outcome.split(":"))
        missing = len(whole) - head - tail
        assert notice == (
            f"[Cut to fit the window: {missing} of {len(whole)} characters are left out in the middle. "
            "Call the tool again for less to see them.]"
        )
        assert rest == f"{whole[:head]}\n[…]\n{whole[-tail:]}"
        assert head == pytest.approx(2 * tail, abs=3)
        assert [(note.segment, note.text) for note in window.report.notes] == [
            ("step_1", "cut to fit the window: large")
        ]

    def test_two_large_ones_share_the_room(self) -> None:
        two = (result("one", words(50_000)), result("two", words(20_000)), result("small", words(100)))
        window = made(request(turn(1, call("step_1", *two)), budget=20_000))
        rooms = {decision.subject: decision.numbers["room"] for decision in window.decisions}
        assert list(rooms) == ["one@claude-opus-5", "two@claude-opus-5"]
        assert len(set(rooms.values())) == 1
        assert results(window)["small"] == words(100)

    def test_a_cut_is_made_once_and_stays(self) -> None:
        asked = request(turn(1, call("step_1", *THREE)), budget=20_000)
        window = made(asked)
        later = request(turn(1, call("step_1", *THREE), call("step_2", result("more", words(500)))), budget=20_000)
        for budget in (20_000, 1_000_000):
            again = made(after(replace(later, budget=budget), window.decisions))
            assert again.decisions == ()
            assert results(again)["large"] == results(window)["large"]

    def test_the_other_model_sees_it_whole_where_it_has_room(self) -> None:
        asked = request(turn(1, call("step_1", *THREE)), budget=20_000)
        window = made(asked)
        other = made(after(replace(asked, model=BINDING, budget=200_000), window.decisions))
        assert results(other)["large"] == words(50_000)

    def test_a_hundred_large_results_keep_a_line_each(self) -> None:
        """Where there is no room at all a result still says that it was cut; if that is too much, so says the error."""
        many = [result(f"call_{number}", long_text(2_000)) for number in range(100)]
        window = made(request(turn(1, call("step_1", *many)), budget=20_000))
        shown = results(window).values()
        assert all(content.startswith("[Cut to fit") and count_tokens(content) < 20_000 / 100 for content in shown)
        with pytest.raises(ContextLengthExceeded):
            made(request(turn(1, call("step_1", *many)), budget=3_000))

    @pytest.mark.parametrize("text", ["世界" * 30_000, "🙂" * 30_000, "a" * 200_000, "\n" * 90_000, "\x00é" * 40_000])
    def test_any_text_can_be_cut(self, text: str) -> None:
        asked = request(turn(1, call("step_1", result("large", text))), budget=6_000)
        window = made(asked)
        assert window.report.local <= usable(asked)
        for decision in window.decisions:
            assert count_tokens(results(window)["large"]) <= decision.numbers["room"]


class TestOldResults:
    OLD = turn(1, call("step_1", result("one", words(6_000))), answer("step_2"))
    OLDER = turn(0, call("step_a", result("zero", words(6_000))), answer("step_b"))

    @pytest.mark.parametrize("layout", ["lamella", "lis", "wegent"])
    def test_the_oldest_give_way_first_and_no_more_than_needed(self, layout: str) -> None:
        new = turn(2, call("step_3", result("two", words(5_000))))
        window = made(request(self.OLDER, self.OLD, new, budget=16_000), layout)
        shown = results(window)
        assert shown == {"zero": "search", "one": words(6_000), "two": words(5_000)}
        (prune,) = window.decisions
        assert (prune.kind, prune.outcome, prune.first_changed) == (DecisionKind.PRUNE, "step_a", "step_a")
        assert prune.numbers["tokens"] == 5_999
        assert "the window of claude-opus-5 is full" in prune.why

    def test_all_of_them_before_a_new_one_is_cut(self) -> None:
        new = turn(2, call("step_3", result("two", words(30_000))))
        window = made(request(self.OLDER, self.OLD, new, budget=16_000))
        assert [decision.kind for decision in window.decisions] == [DecisionKind.PRUNE, DecisionKind.CUT]
        assert [results(window)[name] for name in ("zero", "one")] == ["search", "search"]

    def test_a_result_that_was_cut_frees_what_is_left_of_it(self) -> None:
        """It counts as it is shown: what it once had is not there to be freed."""
        cut = Decision(DecisionKind.CUT, "zero@claude-opus-5", "600:300", "engine", "once too large")
        new = turn(2, call("step_3", result("two", words(12_000))))
        window = made(request(self.OLDER, self.OLD, new, budget=16_000, decisions=(cut,)))
        (prune,) = window.decisions
        assert prune.outcome == "step_1"
        assert prune.numbers["tokens"] < 6_500

    def test_a_new_file_makes_room_if_that_helps(self) -> None:
        asks = turn(2, text="Read this.", attached=[document(1, 8_000)])
        window = made(request(self.OLDER, self.OLD, asks, budget=16_000))
        outcomes = {decision.kind: decision.outcome for decision in window.decisions}
        assert outcomes[DecisionKind.ADMISSION] == INCLUDED
        assert outcomes[DecisionKind.PRUNE] == "step_a"

    def test_a_file_that_never_fits_changes_nothing(self) -> None:
        asks = turn(2, text="Read this.", attached=[document(1, 80_000)])
        window = made(request(self.OLDER, self.OLD, asks, budget=16_000))
        assert [(decision.kind, decision.outcome) for decision in window.decisions] == [
            (DecisionKind.ADMISSION, LISTED)
        ]
        assert results(window)["zero"] == words(6_000)

    def test_earlier_steps_of_the_turn_come_last_and_not_where_thinking_is_bound(self) -> None:
        steps = (
            call("step_3", result("two", words(9_000)), thinks=True),
            call("step_4", result("three", words(9_000))),
        )
        loose = made(request(self.OLD, turn(2, *steps), budget=16_000))
        assert results(loose) == {"one": "search", "two": "search", "three": words(9_000)}
        bound = made(request(self.OLD, turn(2, *steps), budget=16_000, model=BINDING))
        assert results(bound)["two"] == words(9_000)
        assert results(bound)["three"].startswith("[Cut to fit the window")

    def test_the_next_small_step_changes_nothing(self) -> None:
        new = turn(2, call("step_3", result("two", words(5_000))))
        asked = request(self.OLDER, self.OLD, new, budget=16_000)
        window = made(asked)
        more = turn(2, *new.steps, call("step_4", result("three", words(400))))
        again = made(after(replace(asked, turn=more), window.decisions))
        assert again.decisions == ()


class TestDocuments:
    def test_older_files_then_the_project_then_those_of_the_question(self) -> None:
        project = Project("proj_1", "Ship", files=(document(9, 4_000),))
        old = turn(1, answer("step_1"), attached=[document(1, 4_000)])
        new = turn(2, attached=[document(2, 4_000)])
        asked = request(old, new, budget=16_000, project=project)
        first = made(asked)
        assert [(d.subject, d.outcome) for d in first.decisions] == [
            ("file_2#2@claude-opus-5", INCLUDED),
            ("file_9#9@claude-opus-5", INCLUDED),
            ("file_1#1@claude-opus-5", INCLUDED),
        ]
        expected = ["file_1#1", "file_9#9", "file_2#2"]
        for count, budget in ((1, 12_400), (2, 8_000), (3, 4_000)):
            less = made(after(replace(asked, budget=budget), first.decisions))
            assert [(d.subject, d.outcome) for d in less.decisions] == [
                (f"{key}@claude-opus-5", LISTED) for key in expected[:count]
            ]
            changed = [d.first_changed for d in less.decisions]
            assert changed == ["turn_1/files", "proj_1", "turn_2/files"][:count]

    def test_listing_frees_some_room_too(self) -> None:
        """Else the next step would list one more."""
        files = [document(number, 500) for number in range(1, 5)]
        asked = request(turn(1, answer("step_1"), attached=files), turn(2), budget=12_000)
        first = made(asked)
        full = replace(asked, budget=int((first.report.local - 10) * (1 + MARGIN)))
        less = made(after(full, first.decisions))
        assert len(less.decisions) == 1
        assert less.report.local <= usable(full) * (1 - SLACK)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_of_a_project_that_does_not_fit_the_instructions_and_a_list_stand(self, layout: str) -> None:
        project = Project("proj_1", "Ship", "Mind the crew.", (document(9, 400_000), document(8, 10)))
        window = made(request(turn(1), project=project), layout)
        shown = text_of(the(window, "proj_1"))
        assert shown.startswith("Instructions of the project “Ship”:\nMind the crew.")
        assert '"title":"file_9.txt","metadata":"text/plain, about 400000 tokens; not in the window' in shown
        small = '"title":"file_8.txt","metadata":"text/plain","contents":"words"'
        listed = '"title":"file_8.txt","metadata":"text/plain, about 10 tokens; not in the window'
        assert (small if LAYOUTS[layout].is_fixed(Kind.PROJECT) else listed) in shown
        notes = [note.text for note in window.report.notes if note.segment == "proj_1"]
        assert "“file_9.txt” is listed, not included" in notes
        assert letters(window.prompt.segments) == "S P U1"

    @pytest.mark.parametrize("layout", ["onyx", "lis", "wegent"])
    def test_a_project_that_travels_says_why_it_is_listed_and_stays_so(self, layout: str) -> None:
        project = Project("proj_1", "Ship", "Mind the crew.", (document(9, 90_000), document(8, 10)))
        first = made(request(turn(1), project=project, budget=20_000), layout)
        [decision] = first.decisions
        assert decision.why == (
            "the project “Ship” has about 90010 tokens, more than is free in the window of claude-opus-5; its "
            "instructions stay, and its files are listed: they can be searched, and read piece by piece"
        )
        history = (turn(1, answer("step_1")), turn(2))
        later = made(request(*history, project=project, budget=500_000, decisions=first.decisions), layout)
        assert later.decisions == ()
        assert the(later, "proj_1").messages == the(first, "proj_1").messages
        assert letters(later.prompt.segments) == "S U1 A1 P U2"


def ask(**more: object) -> ContextInput:
    """A short question with something that is too large for its window."""
    return request(turn(1), budget=3_000, **more)  # type: ignore[arg-type]


class TestErrors:
    @pytest.mark.parametrize(
        ("asked", "param", "said", "hint"),
        [
            (ask(agent=Agent("a", "Pirate", words(4_000))), "agent_id", "Agent Pirate has 4,0", "Shorten the agent's"),
            (ask(system=words(4_000)), "system_prompt", "System prompt has 4,0", "Shorten the system prompt"),
            (
                ask(agent=Agent("a", "Judge", words(4_000), replaces_system=True)),
                "agent_id",
                "Agent Judge has 4,0",
                "Shorten the agent's",
            ),
            (ask(project=Project("p", "Ship", words(4_000))), "project_id", "Project Ship has 4,0", "Take files out"),
        ],
    )
    def test_it_names_what_is_too_large(self, asked: ContextInput, param: str, said: str, hint: str) -> None:
        with pytest.raises(ContextLengthExceeded) as raised:
            made(asked)
        assert raised.value.param == param
        assert "This request has about 4," in raised.value.message
        assert "claude-opus-5 takes 3,000 here" in raised.value.message
        assert said in raised.value.message
        assert str(raised.value.hint).startswith(hint)

    def test_a_long_question_and_dynamic_context_are_named_too(self) -> None:
        for asked, param in ((turn(1, text=words(4_000)), "text"), (turn(1, dynamic=words(4_000)), "dynamic_context")):
            with pytest.raises(ContextLengthExceeded) as raised:
                made(request(asked, budget=3_000))
            assert raised.value.param == param

    def test_figures_are_in_the_providers_tokens(self) -> None:
        with pytest.raises(ContextLengthExceeded) as raised:
            made(request(turn(1, text=words(4_000)), budget=6_000, calibration=2.0))
        assert "has about 8,5" in raised.value.message
        assert "Question 1 has 8,0" in raised.value.message


class TestCompaction:
    LONG = tuple(turn(number, answer(f"step_{number}", words(3_000))) for number in range(4))

    def test_it_is_asked_for_only_where_the_engine_can(self) -> None:
        asked = request(*self.LONG, turn(9), budget=8_000)
        assert [decision.kind for decision in made(asked).decisions] == [DecisionKind.LEFT_OUT]
        with pytest.raises(NeedsCompaction) as wanted:
            made(replace(asked, can_compact=True))
        assert wanted.value.cut == "turn_1"
        kept = request(*self.LONG[2:], turn(9), budget=8_000)
        assert made(kept).decisions == ()

    def test_not_where_stubs_suffice(self) -> None:
        old = turn(1, call("step_1", result("one", words(6_000))), answer("step_2"))
        new = turn(2, call("step_3", result("two", words(5_000))))
        window = made(request(old, new, budget=8_000, can_compact=True))
        assert [decision.kind for decision in window.decisions] == [DecisionKind.PRUNE]

    def test_not_where_earlier_turns_hold_too_little(self) -> None:
        """What was large in them is gone from the window already: summarising them frees nothing."""
        old = turn(1, call("step_1", result("one", words(9_000))), answer("step_2"))
        with pytest.raises(ContextLengthExceeded) as raised:
            made(request(old, turn(2, text=words(9_000)), budget=8_000, can_compact=True))
        assert not isinstance(raised.value, NeedsCompaction)
        assert raised.value.param == "text"


SAID = tuple(turn(number, answer(f"step_{number}", words(1_500)), text=f"Q{number}") for number in range(8))


def left_out(window: Assembled) -> str:
    """What a window says of the turns that left it."""
    return text_of(the(window, LEFT_OUT))


@pytest.mark.parametrize("layout", LAYOUTS)
class TestOldestTurns:
    def test_they_leave_when_nothing_else_helps_and_the_window_says_so(self, layout: str) -> None:
        asked = request(*SAID, turn(9, text="hi"), budget=8_000)
        window = made(asked, layout)
        (decision,) = window.decisions
        assert (decision.kind, decision.subject) == (DecisionKind.LEFT_OUT, "claude-opus-5")
        assert decision.first_changed == "turn_0/user"
        turns = int(decision.numbers["turns"])
        assert decision.outcome == f"turn_{turns - 1}"
        assert [turn.turn.id for turn in window.rendered] == [f"turn_{n}" for n in range(turns, 8)] + ["turn_9"]
        assert window.report.local <= usable(asked)
        assert f"the oldest {turns} messages, with their answers" in left_out(window)
        assert "A search over this conversation finds them" in left_out(window)
        assert f"the oldest {turns} messages" in decision.why

    def test_what_left_stays_out_and_the_next_message_edits_nothing(self, layout: str) -> None:
        asked = request(*SAID, turn(9, text="hi"), budget=8_000)
        window = made(asked, layout)
        done = turn(9, answer("step_9"), text="hi")
        again = made(after(replace(request(*SAID, done, turn(10)), budget=8_000), window.decisions), layout)
        assert again.decisions == ()
        assert left_out(again) == left_out(window)
        fixed = [segment.id for segment in window.prompt.segments][:3]
        assert [segment.id for segment in again.prompt.segments][:3] == fixed

    def test_more_of_them_leave_later(self, layout: str) -> None:
        window = made(request(*SAID, turn(9, text="hi"), budget=8_000), layout)
        more = tuple(turn(number, answer(f"step_{number}", words(1_500))) for number in range(9, 14))
        again = made(after(request(*SAID, *more, turn(20), budget=8_000), window.decisions), layout)
        (decision,) = again.decisions
        assert decision.numbers["turns"] > window.decisions[0].numbers["turns"]
        assert decision.first_changed == LEFT_OUT
        assert again.report.local <= usable(request(turn(1), budget=8_000))

    def test_another_model_sees_all_that_fits_it(self, layout: str) -> None:
        asked = request(*SAID, turn(9, text="hi"), budget=8_000)
        window = made(asked, layout)
        other = made(after(replace(asked, model=BINDING, budget=200_000), window.decisions), layout)
        assert len(other.rendered) == 9

    def test_old_summaries_leave_after_the_turns(self, layout: str) -> None:
        summaries = tuple(Summary(f"sess_{n}", words(1_500), 1_500) for n in range(4))
        asked = request(*SAID, turn(9, text="hi"), budget=6_000, summaries=summaries)
        window = made(asked, layout)
        (decision,) = window.decisions
        assert (decision.outcome, decision.first_changed) == ("turn_7", "sess_0")
        assert decision.numbers["summaries"] == 1
        kinds = [segment.id for segment in window.prompt.segments if segment.kind is Kind.SUMMARY]
        assert kinds == ["sess_1", "sess_2", "sess_3", LEFT_OUT]
        alone = made(request(turn(9, text="hi"), budget=5_000, summaries=summaries), layout)
        assert alone.decisions[0].outcome == "sess_1"
        assert "2 of the oldest summaries" in left_out(alone)
        again = made(after(request(turn(9, text="hi"), budget=5_000, summaries=summaries), alone.decisions), layout)
        assert again.decisions == ()

    def test_a_new_session_begins_with_nothing_left_out(self, layout: str) -> None:
        window = made(request(*SAID, turn(9, text="hi"), budget=8_000), layout)
        fresh = made(after(request(turn(10), budget=8_000), window.decisions), layout)
        assert LEFT_OUT not in {segment.id for segment in fresh.prompt.segments}

    def test_the_oldest_files_leave_with_their_turns(self, layout: str) -> None:
        listed = tuple(document(number, 100) for number in range(1, 60))
        old = turn(0, answer("step_0", words(3_000)), attached=listed)
        window = made(request(old, *SAID[1:], turn(9, text="hi"), budget=7_000), layout)
        assert "turn_0/files" not in {segment.id for segment in window.prompt.segments}


class TestWhatAnEstimateIsSureOf:
    def test_a_doubtful_estimate_refuses_nothing_that_may_fit(self) -> None:
        asked = request(turn(9, text="hi"), budget=3_000, system=words(4_000))
        with pytest.raises(ContextLengthExceeded):
            made(asked)
        window = made(replace(asked, doubt=1.5))
        assert window.report.estimate > 3_000
        with pytest.raises(ContextLengthExceeded):
            made(replace(asked, system=words(9_000), doubt=1.5))

    def test_a_text_far_too_long_is_refused_before_it_is_stored(self) -> None:
        with pytest.raises(ContextLengthExceeded) as caught:
            made(request(turn(9, text=words(4_000)), budget=3_000, doubt=1.5))
        assert caught.value.param == "text"

    def test_a_learned_limit_makes_things_give_way_and_refuses_nothing(self) -> None:
        asked = request(*SAID, turn(9, text="hi"), budget=100_000)
        assert made(asked).decisions == ()
        window = made(replace(asked, limit=6_000))
        assert [decision.kind for decision in window.decisions] == [DecisionKind.LEFT_OUT]
        assert window.report.local <= 6_000
        assert made(replace(asked, limit=10)).report.local < 400

    def test_a_margin_makes_room_for_what_the_estimate_may_miss(self) -> None:
        asked = request(*SAID, turn(9, text="hi"), budget=13_500)
        assert made(asked).decisions == ()
        assert made(replace(asked, margin=1.0)).report.local <= 13_500 / 2


def test_a_result_that_has_no_room_at_all_is_a_notice_within_the_least_share() -> None:
    window = made(request(turn(1, call("step_1", result("large", long_text(90_000)))), budget=125, tools=()))
    (cut,) = window.decisions
    assert cut.numbers["room"] == LEAST_CUT
    assert results(window)["large"].startswith("[Cut to fit the window: ")
    assert count_tokens(results(window)["large"]) <= LEAST_CUT
