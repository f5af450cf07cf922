"""`lamella clients`, `tail` and `why --last`: what other programs sent, from the terminal."""

from __future__ import annotations

from lamella.cli.clients import _listed, told

LINE = {
    "id": "conv_1", "at": "2026-03-01T12:00:00+00:00", "begun_at": "2026-03-01T11:00:00+00:00", "client": "Codex 0.9",
    "session": "s", "label": "conversation", "title": "Hello", "turns": 3, "requests": 4, "breaks": 1, "lost": 900,
    "lost_cost": 0.01, "saved": 0.0, "cost": 0.5, "usage": {"input": 10_000, "cache_read": 7_500}, "alarm": None,
    "compactions": 0, "context_saved": 0,
}  # fmt: skip


def test_side_calls_stand_under_their_conversation() -> None:
    title = LINE | {"id": "conv_2", "label": "title", "breaks": 0, "saved": 0.2, "turns": 1}
    other = LINE | {"id": "conv_3", "session": None}
    rows = list(_listed([title, other, LINE]))
    assert [row.split()[0] for row in rows] == ["conv_1", "conv_2", "conv_3"]
    assert rows[0].endswith("3 turns, 10k tokens, 75% read, 1 breaks ($0.0100), $0.5000")
    assert "  title: Hello  1 turns" in rows[1]
    assert "markers saved $0.2000" in rows[1]
    assert rows[1].startswith("  ")


def test_a_client_that_loops_is_told_in_the_list_and_among_the_live_requests() -> None:
    loops = LINE | {"alarm": {"times": 7, "text": "This client loops: it did.", "active": True}}
    looped = LINE | {"alarm": {"times": 7, "text": "This client loops: it did.", "active": False}}
    assert "($0.0100), looping: 7 times the same, $0.5000" in next(iter(_listed([loops])))
    assert "($0.0100), looped, $0.5000" in next(iter(_listed([looped])))
    request = {"at": "2026-03-01T12:00:00+00:00", "model": "m-1", "id": "req_1", "letters": "T S U"}
    told_of = {"request": request, "why": "All was read.", "relation": "rewritten"}
    assert told({"line": loops, **told_of})[-1].strip() == "This client loops: it did."
    assert len(told({"line": looped, **told_of})) == 2


def test_a_sum_of_which_a_part_is_estimated_is_marked() -> None:
    estimated = LINE | {"usage": {"input": 10_000, "cache_read": 7_500, "estimated": True}}
    assert next(iter(_listed([estimated]))).endswith("($0.0100), ≈ $0.5000")


def test_nothing_yet_says_what_to_do() -> None:
    assert list(_listed([])) == ["No client has sent anything yet. Set the base URL of one to this server."]


def test_a_request_is_told_with_its_why() -> None:
    request = {"at": "2026-03-01T12:00:00+00:00", "model": "m-1", "id": "req_1", "letters": "T S U"}
    first, second = told({"line": LINE, "request": request, "why": "All was read.", "relation": "next"})
    assert first.endswith("Codex 0.9  m-1  conv_1  req_1  T S U")
    assert second.strip() == "All was read."
