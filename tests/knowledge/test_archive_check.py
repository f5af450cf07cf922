"""Zip files that declare too much, or lie."""

from __future__ import annotations

import struct
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from lamella.knowledge.extraction_job import ExtractionLimits, UnreadableFile
from lamella.knowledge.office_text import check_archive

from .office_writer import pack, write_docx

LIMITS = ExtractionLimits(max_unpacked_bytes=50_000_000, ratio_free_bytes=5_000_000, max_members=50)


def code_of(data: bytes) -> str | None:
    try:
        check_archive(data, LIMITS)
    except UnreadableFile as unreadable:
        return unreadable.code
    return None


def zeros(size: int) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as member:
        for _ in range(size // 1_000_000):
            member.write(bytes(1_000_000))
    return file.getvalue()


def patched(data: bytes, offset_in_entry: int, value: int, form: str = "<I") -> bytes:
    """With one field of the last entry of the directory changed."""
    changed = bytearray(data)
    struct.pack_into(form, changed, changed.rfind(b"PK\x01\x02") + offset_in_entry, value)
    return bytes(changed)


def test_a_real_file_passes() -> None:
    assert code_of(write_docx(["words"] * 1000)) is None


def test_a_small_dense_file_is_no_bomb() -> None:
    assert code_of(zeros(4_000_000)) is None


@pytest.mark.parametrize("size", [6_000_000, 60_000_000])
def test_a_declared_bomb_is_refused(size: int) -> None:
    assert code_of(zeros(size)) == "archive_bomb"


def test_a_bomb_that_declares_little_is_refused() -> None:
    assert code_of(patched(zeros(20_000_000), 24, 1_000)) == "archive_bomb"


def test_members_that_share_their_data_are_counted_each() -> None:
    data = zeros(4_000_000)
    entry = data[data.rfind(b"PK\x01\x02") : data.rfind(b"PK\x05\x06")]
    directory = entry * 40
    start = data.rfind(b"PK\x01\x02")
    end = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 40, 40, len(directory), start, 0)
    assert code_of(data[:start] + directory + end) == "archive_bomb"


def test_too_many_members_are_refused() -> None:
    assert code_of(pack({f"{number}.xml": "" for number in range(60)})) == "archive_bomb"


def test_a_protected_member_is_told() -> None:
    assert code_of(patched(write_docx(["x"]), 8, 1, "<H")) == "encrypted"


@pytest.mark.parametrize(
    "data",
    [
        write_docx(["x"])[:-40],
        b"PK\x03\x04 no directory",
        patched(write_docx(["x" * 999]), 24, 99_000),  # declares more than is there
        patched(write_docx(["x" * 999]), 20, 900_000),  # packed size past the end
        patched(write_docx(["x"]), 42, 3),  # points to something that is no member
        patched(write_docx(["x"]), 10, 12, "<H"),  # another way of packing
    ],
)
def test_a_damaged_file_is_told(data: bytes) -> None:
    assert code_of(data) == "corrupt"


def test_rare_ways_of_packing_are_refused() -> None:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_LZMA) as archive:
        archive.writestr("word/document.xml", "x")
    assert code_of(file.getvalue()) == "corrupt"


def test_every_broken_off_or_changed_byte_gives_a_refusal_or_nothing() -> None:
    data = write_docx(["words and more words"], title="t")
    for place in range(0, len(data), 3):
        code_of(data[:place])
        code_of(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
