"""The quick local count against the vocabulary that the simulator bills by (docs/decisions/0003)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.counting import ApproximateCounter
from lamella_simulator.tokens import count_text

ROOT = Path(__file__).parents[2]
ROWS = [
    {"id": f"file_{n:06d}", "name": f"plan {n}.md", "size": n * 977, "tags": ["sea", "sky"], "ok": n % 2 == 0}
    for n in range(60)
]
BOUND = 0.15
"""The documented error, either way."""

TEXTS = {
    "prose": (ROOT / "README.md").read_text(),
    "code": (ROOT / "src/lamella/core/messages.py").read_text(),
    "JSON": json.dumps(ROWS),
    "compact JSON": json.dumps(ROWS, separators=(",", ":")),
    "Chinese": "人工智能正在改变我们的生活方式。昨天我去了北京大学的图书馆，看到了很多学生在学习历史和数学。" * 5,
    "Japanese": "昨日は東京へ行って、友達と一緒に美味しい寿司を食べました。天気が良かったので、公園を散歩しました。"
    * 5,
    "Russian": "Вчера мы ходили в библиотеку и читали книги о море и небе. Погода была хорошая." * 5,
    "Arabic": "ذهبنا أمس إلى المكتبة وقرأنا كتبا عن البحر والسماء. كان الطقس جميلا لذلك تجولنا طويلا." * 5,
    "Hindi": "कल हम पुस्तकालय गए और समुद्र के बारे में किताबें पढ़ीं। मौसम अच्छा था।" * 5,
    "German": "Gestern gingen wir in die Bibliothek und lasen Bücher über das Meer und den Himmel." * 5,
    "emoji in prose": "Great job 🎉🎉 see you tomorrow 👋🏽 👨‍👩‍👧 love it ❤️ 🚀🌍😂 ok 👍 " * 10,
    "figures": "3.14159 2026-11-22 12:34:56 1,234,567 " * 20,
    "base64": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ" * 5,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_count_is_within_its_documented_error(text: str) -> None:
    counted, exact = ApproximateCounter().count(text), count_text(text)
    assert abs(counted - exact) <= BOUND * exact


@pytest.mark.parametrize("text", ["😀😂🎉🚀🌍👍❤️🔥✨🙏" * 10, "🫠🫶🪩🥹👨‍👩‍👧🇩🇪👋🏽" * 10])
def test_emoji_alone_are_at_most_a_third_off(text: str) -> None:
    counted, exact = ApproximateCounter().count(text), count_text(text)
    assert abs(counted - exact) <= exact / 3


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("word", 1), ("two words", 2), ("\n", 1), ("1234", 2), ("\x00", 1), ("\ud800", 1)]
)
def test_short_texts(text: str, count: int) -> None:
    assert ApproximateCounter().count(text) == count


@given(st.text(max_size=200), st.text(max_size=200))
def test_it_counts_any_text_and_more_for_more(one: str, other: str) -> None:
    counter = ApproximateCounter()
    assert counter.count(one) == counter.count(one) >= 0
    joined = counter.count(f"{one}\n{other}")
    assert abs(joined - counter.count(one) - counter.count(other)) <= 3


@pytest.mark.parametrize("piece", ["the sea and the sky ", "a/", "+", "x", "😀", "!@#", "a1", "_", "9 ", "\u0301"])
def test_a_long_text_takes_no_longer_than_its_length(piece: str) -> None:
    """Half a megabyte of anything: a pattern that went back over it would take minutes."""
    assert ApproximateCounter().count(piece * (500_000 // len(piece))) > 0
