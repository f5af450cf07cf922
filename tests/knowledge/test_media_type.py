"""What a file is, told by its bytes."""

from __future__ import annotations

import gzip
from io import BytesIO
from zipfile import ZipFile

import pytest

from lamella.knowledge.extraction_job import UnreadableFile
from lamella.knowledge.media_type import CSV, DOCX, HTML, MARKDOWN, PDF, PLAIN, PPTX, XLSX, refusal, sniff

from .office_writer import pack, write_docx, write_encrypted_office, write_pptx, write_xlsx
from .pdf_writer import write_pdf

UNSUPPORTED = "unsupported_type"


def renamed_part(data: bytes, old: str, new: str) -> bytes:
    with ZipFile(BytesIO(data)) as archive:
        return pack({name.replace(old, new): archive.read(name) for name in archive.namelist()})


@pytest.mark.parametrize(
    ("data", "name", "media_type"),
    [
        (b"plain words", "a.txt", PLAIN),
        (b"plain words", "", PLAIN),
        (b"# Title", "README.MD", MARKDOWN),
        (b"a;b", "x.tsv", CSV),
        (b'{"a": 1}', "a.json", PLAIN),
        ("Grüße".encode("utf-16"), "a.txt", PLAIN),
        (b"<!DOCTYPE html><p>x", "a.txt", HTML),
        (b"\xef\xbb\xbf \n<!-- saved -->\n<HTML lang=en>", "a.pdf", HTML),
        (b'<?xml version="1.0"?><!DOCTYPE html><html>', "a", HTML),
        (b"<div align=center>\n\n# Project", "README.md", MARKDOWN),
        (b"<p>a piece of a page", "a.html", HTML),
        (b"2 < 3 and no tag at all", "a.html", PLAIN),
        (b"<header>is not <head>", "a.xml", PLAIN),
        (write_pdf([]), "a.txt", PDF),
        (b"\n\n%PDF-1.4", "a", PDF),
        (b"\0\1\2 binary mail header \xff%PDF-1.4", "a", PDF),
        (write_docx(["x"]), "a.zip", DOCX),
        (renamed_part(write_docx(["x"]), "document.xml", "document2.xml"), "a", DOCX),
        (write_xlsx({"S": [["x"]]}), "a.docx", XLSX),
        (write_pptx([("a", "b", "")]), "a", PPTX),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "a.txt", "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(20), "a", "image/jpeg"),
        (b"GIF89a" + bytes(20), "a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "a.png", "image/webp"),
        (b"II*\0" + bytes(20), "a", "image/tiff"),
    ],
)
def test_content_decides(data: bytes, name: str, media_type: str) -> None:
    sniffed = sniff(data, name)
    assert sniffed.media_type == media_type
    assert refusal(media_type) is None
    assert (sniffed.text is not None) == media_type.startswith("text/")


@pytest.mark.parametrize(
    ("data", "media_type", "code", "advice"),
    [
        (b"\0\0\0\x18ftypheic" + bytes(20), "image/heic", UNSUPPORTED, "save it as PNG or JPEG"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "audio/wav", UNSUPPORTED, "transcript"),
        (b"\0\0\0\x18ftypmp42" + bytes(20), "video/mp4", UNSUPPORTED, "transcript"),
        (gzip.compress(b"text", mtime=0), "application/gzip", UNSUPPORTED, "unpack it"),
        (pack({"a.txt": "x"}), "application/zip", UNSUPPORTED, "unpack it"),
        (b"PK\x05\x06" + bytes(18), "application/zip", UNSUPPORTED, "unpack it"),
        (pack({"mimetype": "application/epub+zip"}), "application/epub+zip", UNSUPPORTED, "export it"),
        (
            pack({"mimetype": "application/vnd.oasis.opendocument.text", "word/document.xml": "x"}),
            "application/vnd.oasis.opendocument",
            UNSUPPORTED,
            "save it as .docx",
        ),
        (pack({"xl/workbook.bin": "x"}), "application/vnd.ms-excel.sheet.binary", UNSUPPORTED, "save it as .docx"),
        (b"{\\rtf1 text}", "application/rtf", UNSUPPORTED, "save it as .docx"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
            "application/x-ole-storage",
            UNSUPPORTED,
            "save it as .docx",
        ),
        (write_encrypted_office(), "application/x-encrypted-office", "encrypted", "Remove it"),
        (b"\x7fELF\2\1\1" + bytes(range(256)), "application/octet-stream", "not_text", "Save it as PDF"),
    ],
)
def test_what_is_not_read_says_what_to_do(data: bytes, media_type: str, code: str, advice: str) -> None:
    sniffed = sniff(data, "letter.txt")
    unreadable = refusal(sniffed.media_type)
    assert (sniffed.media_type, sniffed.text) == (media_type, None)
    assert unreadable is not None
    assert unreadable.code == code
    assert advice in unreadable.reason


@pytest.mark.parametrize("data", [write_docx(["x"])[:-30], b"PK\x03\x04", b"PK\x03\x04" + bytes(100)])
def test_a_broken_off_zip_is_damaged(data: bytes) -> None:
    with pytest.raises(UnreadableFile) as caught:
        sniff(data, "a.docx")
    assert caught.value.code == "corrupt"
