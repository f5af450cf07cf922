"""False alarms and CPU of what keeps hints out of streamed answers, on real files.

    python bench/sieving.py [FOLDER …] [--files 400]

Each file is an answer of at most 20,000 characters, and comes in pieces of four. Hints are sentences of other files, so
that they have the same words. Without a folder: manual pages, licences and Python's own source. An alarm is false if
the file has no run of the hint as written. `waiting`: characters that were held back, at most and on average.
"""

from __future__ import annotations

import gzip
import re
import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from time import process_time

from lamella.guard.kept_back import LEFT_OUT, RUN, KeptBack, Sieve
from lamella.guard.letters import fold, words_of
from tables import arguments, show

FOLDERS = ("/usr/share/man", "/usr/share/doc", "/usr/share/common-licenses", Path(sys.executable).resolve().parents[1])
LONGEST, PIECE = 20_000, 4


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--files", type=int, default=400)
    given = parser.parse_args()
    chosen = Random(1)
    found = sorted(path for folder in given.folders for path in Path(folder).rglob("*") if path.is_file())
    texts = [text for path in chosen.sample(found, min(len(found), 4 * given.files)) if (text := _read(path))]
    hints = [sentence for text in texts for sentence in re.findall(r"[A-Z][a-z ,']{60,160}\.", text)[:1]]
    rows: list[tuple[str, ...]] = [
        ("answers", "count", "characters", "false alarms", "waiting, most", "mean", "CPU for 4,000 characters")
    ]
    answers = [(text, text) for text in texts[: given.files]]
    coded = [(b64encode(text.encode()).decode(), text) for text, _ in answers]
    images = [(b64encode(chosen.randbytes(9_000)).decode(), "") for _ in range(given.files // 10)]
    for name, said in (("files", answers), ("files in base64", coded), ("images in base64", images)):
        rows.append((name, *_row(said, hints, chosen)))
    show(rows)


def _read(path: Path) -> str:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return raw.decode()[:LONGEST]
    except (OSError, ValueError):
        return ""


def _has_run(text: str, kept: KeptBack) -> bool:
    keys = [word.text for word in words_of(fold(text))]
    return any(tuple(keys[at : at + RUN]) in kept.runs for at in range(len(keys)))


def _row(said: list[tuple[str, str]], hints: list[str], chosen: Random) -> tuple[str, ...]:
    alarms = most = waited = characters = 0
    spent = 0.0
    for text, written in said:
        kept = KeptBack(chosen.sample(hints, min(3, len(hints))))
        sieve, out = Sieve(kept), 0
        began = process_time()
        shown = []
        for at in range(0, len(text), PIECE):
            shown.append(sieve.feed(text[at : at + PIECE]))
            out += len(shown[-1])
            most, waited = max(most, at + PIECE - out), waited + max(0, at + PIECE - out)
        shown.append(sieve.end())
        spent += process_time() - began
        characters += len(text)
        alarms += LEFT_OUT in "".join(shown) and LEFT_OUT not in text and not _has_run(written, kept)
    pieces = max(1, characters // PIECE)
    return (str(len(said)), f"{characters:,}", str(alarms), str(most), f"{waited / pieces:.1f}",
            f"{1_000 * spent / max(1, characters) * 4_000:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
