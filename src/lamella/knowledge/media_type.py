"""Determines a file's type by its content; its name only distinguishes kinds of text."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePath
from zipfile import BadZipFile, ZipFile

from lamella.knowledge.extraction_job import UNKNOWN_MEDIA_TYPE, UnreadableFile, damaged
from lamella.knowledge.text_content import decode

PLAIN = "text/plain"
PICTURES = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/bmp",
        "image/tiff",
        "image/avif",
        "image/x-icon",
    }
)
"""Kinds of pictures that are read."""

MARKDOWN = "text/markdown"
CSV = "text/csv"
HTML = "text/html"
PDF = "application/pdf"
_OPEN_XML = "application/vnd.openxmlformats-officedocument."
DOCX = f"{_OPEN_XML}wordprocessingml.document"
XLSX = f"{_OPEN_XML}spreadsheetml.sheet"
PPTX = f"{_OPEN_XML}presentationml.presentation"
ENCRYPTED_OFFICE = "application/x-encrypted-office"
LEGACY_OFFICE = "application/x-ole-storage"
ZIP = "application/zip"

_TEXT_SUFFIXES = {".md": MARKDOWN, ".markdown": MARKDOWN, ".csv": CSV, ".tsv": CSV}
_HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})

# How the file starts, then a second mark and where it stands, and what both together mean.
_SIGNATURES: tuple[tuple[bytes, int, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"II*\0", 0, b"", "image/tiff"),
    (b"MM\0*", 0, b"", "image/tiff"),
    (b"\0\0\1\0", 0, b"", "image/x-icon"),
    (b"BM", 6, b"\0\0\0\0", "image/bmp"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"RIFF", 8, b"AVI ", "video/x-msvideo"),
    (b"\0\0", 4, b"ftypheic", "image/heic"),
    (b"\0\0", 4, b"ftypmif1", "image/heic"),
    (b"\0\0", 4, b"ftypavif", "image/avif"),
    (b"\0\0", 4, b"ftypM4A", "audio/mp4"),
    (b"\0\0", 4, b"ftyp", "video/mp4"),
    (b"ID3\x02", 0, b"", "audio/mpeg"),
    (b"ID3\x03", 0, b"", "audio/mpeg"),
    (b"ID3\x04", 0, b"", "audio/mpeg"),
    (b"\xff\xfb", 0, b"", "audio/mpeg"),
    (b"OggS\0", 0, b"", "audio/ogg"),
    (b"fLaC\0", 0, b"", "audio/flac"),
    (b"\x1aE\xdf\xa3", 0, b"", "video/webm"),
    (b"\x1f\x8b\x08", 0, b"", "application/gzip"),
    (b"BZh", 4, b"1AY&SY", "application/x-bzip2"),
    (b"\xfd7zXZ\0", 0, b"", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", 0, b"", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", 0, b"", "application/vnd.rar"),
    (b"\x28\xb5\x2f\xfd", 0, b"", "application/zstd"),
    (b"", 257, b"ustar", "application/x-tar"),
    (b"{\\rtf", 0, b"", "application/rtf"),
)

_FAMILY_REASONS = {
    "image": "Pictures in this format can't be read; save it as PNG or JPEG and upload that.",
    "audio": "Sound can't be read; upload a transcript as text, Word or PDF.",
    "video": "Video can't be read; upload a transcript as text, Word or PDF.",
}
_ARCHIVE_REASON = "Archives can't be read; unpack it and upload the files inside."
_OFFICE_REASON = "Files in this Office format can't be read; save it as .docx, .xlsx, .pptx or PDF and upload that."
_TYPE_REASONS = {
    LEGACY_OFFICE: _OFFICE_REASON,
    "application/rtf": _OFFICE_REASON,
    "application/vnd.ms-excel.sheet.binary": _OFFICE_REASON,
    "application/vnd.oasis.opendocument": _OFFICE_REASON,
    "application/epub+zip": "E-books can't be read; export it as PDF or text and upload that.",
}

_OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_OFFICE_PARTS = (
    (re.compile(r"word/document\d*\.xml"), DOCX),
    (re.compile(r"xl/workbook\d*\.xml"), XLSX),
    (re.compile(r"ppt/presentation\d*\.xml"), PPTX),
    (re.compile(r"xl/workbook\d*\.bin"), "application/vnd.ms-excel.sheet.binary"),
)

_MAX_PROLOG = 20_000
_COMMENTS = re.compile(r"\s*(?:<\?xml[^>]{0,200}\?>|<!--.{0,4000}?-->)", re.DOTALL)
_HTML_START = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[a-zA-Z!/][^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A file's type. `text` is the decoded content of a kind of text."""

    media_type: str
    text: str | None = None


def sniff(data: bytes, name: str) -> Sniffed:
    """The media type of a file's bytes. Raises `Unreadable` with `corrupt` for a zip file that is broken off."""
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return Sniffed(_zip_type(data))
    if data.startswith(_OLE_MARK):
        return Sniffed(ENCRYPTED_OFFICE if _ENCRYPTED_PACKAGE in data else LEGACY_OFFICE)
    if data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n\f\0").startswith(b"%PDF-"):
        return Sniffed(PDF)
    if signed := _signed_type(data):
        return Sniffed(signed)
    text = decode(data)
    if text is not None:
        return Sniffed(_text_type(text, name), text)
    # Readers of PDF accept other bytes before the header, so files with them exist.
    return Sniffed(PDF if b"%PDF-" in data[:1024] else UNKNOWN_MEDIA_TYPE)


def refusal(media_type: str) -> UnreadableFile | None:
    """Why a file of this type is not read; None if it is."""
    if media_type in (PLAIN, MARKDOWN, CSV, HTML, PDF, DOCX, XLSX, PPTX) or media_type in PICTURES:
        return None
    if media_type == ENCRYPTED_OFFICE:
        return UnreadableFile(
            "encrypted", "The document is protected with a password. Remove it and upload the file again."
        )
    if media_type == UNKNOWN_MEDIA_TYPE:
        return UnreadableFile(
            "not_text",
            "The file is neither a known document nor text in a known encoding. Save it as PDF, or as text in UTF-8.",
        )
    family = media_type.partition("/")[0]
    reason = _FAMILY_REASONS.get(family) or _TYPE_REASONS.get(media_type) or _ARCHIVE_REASON
    return UnreadableFile("unsupported_type", reason)


def _signed_type(data: bytes) -> str | None:
    for start, offset, mark, media_type in _SIGNATURES:
        if data.startswith(start) and data.startswith(mark, offset):
            return media_type
    return None


def _zip_type(data: bytes) -> str:
    try:
        with ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
            if names[:1] == ["mimetype"]:
                with archive.open("mimetype") as declaration:
                    return _declared_zip_type(declaration.read(100))
    except (BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError, zlib.error) as error:
        raise damaged() from error
    for part, media_type in _OFFICE_PARTS:
        if any(part.fullmatch(name) for name in names):
            return media_type
    return ZIP


def _declared_zip_type(declared: bytes) -> str:
    if declared.startswith(b"application/epub+zip"):
        return "application/epub+zip"
    if declared.startswith(b"application/vnd.oasis.opendocument"):
        return "application/vnd.oasis.opendocument"
    return ZIP


def _text_type(text: str, name: str) -> str:
    suffix = PurePath(name.replace("\\", "/")).suffix.lower()
    start = 0
    while start < _MAX_PROLOG and (comment := _COMMENTS.match(text, start)):
        start = comment.end()
    if _HTML_START.match(text, start):
        return HTML
    # A README often begins with a stray <div>: such a text is HTML only when its name says so too.
    if suffix in _HTML_SUFFIXES and _ANY_TAG.search(text):
        return HTML
    return _TEXT_SUFFIXES.get(suffix, PLAIN)
