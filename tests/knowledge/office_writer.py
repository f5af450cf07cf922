"""Writes the smallest Word, Excel and PowerPoint files that are real, and the frame of a password-protected one."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_S = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="{_OFFICE}"'
_P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    f'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="{_OFFICE}"'
)


def pack(parts: Mapping[str, str | bytes]) -> bytes:
    """A zip file of these members."""
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def write_docx(paragraphs: Sequence[str], title: str | None = None) -> bytes:
    """A Word file; a paragraph that starts with `# ` is a heading."""
    return docx_of("".join(_paragraph(text) for text in paragraphs), title)


def docx_of(body: str, title: str | None = None, prolog: str = "") -> bytes:
    """A Word file around the XML of a body; `prolog` may hold a document type."""
    parts = {"word/document.xml": f"{prolog}<w:document {_W}><w:body>{body}</w:body></w:document>"}
    types = {"word/document.xml": f"{_OPEN_XML}.wordprocessingml.document.main+xml"}
    return pack(_package(parts, types, "word/document.xml", title))


def write_xlsx(sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> bytes:
    """A workbook of texts and numbers."""
    return xlsx_of({name: sheet_rows(dict(enumerate(rows, start=1))) for name, rows in sheets.items()})


def sheet_rows(rows: Mapping[int, Sequence[str | float]]) -> str:
    """The XML of rows by their number."""
    return "".join(
        f'<row r="{number}">{"".join(_cell(column, number, value) for column, value in enumerate(row))}</row>'
        for number, row in rows.items()
    )


def xlsx_of(sheets: Mapping[str, str], before: str = "", after: str = "") -> bytes:
    """A workbook around the XML of each sheet's rows, with other elements before or after the rows."""
    entries, relations, parts, types = "", "", {}, {}
    for number, (name, rows) in enumerate(sheets.items(), start=1):
        entries += f'<sheet name="{escape(name)}" sheetId="{number}" r:id="rId{number}"/>'
        relations += _relation(number, f"{_OFFICE}/worksheet", f"worksheets/sheet{number}.xml")
        part = f"xl/worksheets/sheet{number}.xml"
        parts[part] = f"<worksheet {_S}>{before}<sheetData>{rows}</sheetData>{after}</worksheet>"
        types[part] = f"{_OPEN_XML}.spreadsheetml.worksheet+xml"
    parts["xl/workbook.xml"] = f"<workbook {_S}><sheets>{entries}</sheets></workbook>"
    parts["xl/_rels/workbook.xml.rels"] = _relations(relations)
    types["xl/workbook.xml"] = f"{_OPEN_XML}.spreadsheetml.sheet.main+xml"
    return pack(_package(parts, types, "xl/workbook.xml", None))


def write_pptx(slides: Sequence[tuple[str, str, str]]) -> bytes:
    """A presentation of slides, each a title, a text, and the speaker's notes (which may be empty)."""
    entries, relations, parts, types = "", "", {}, {}
    for number, (title, text, notes) in enumerate(slides, start=1):
        entries += f'<p:sldId id="{255 + number}" r:id="rId{number}"/>'
        relations += _relation(number, f"{_OFFICE}/slide", f"slides/slide{number}.xml")
        part = f"ppt/slides/slide{number}.xml"
        parts[part] = f"<p:sld {_P}>{_shapes(('title', title), ('body', text))}</p:sld>"
        types[part] = f"{_OPEN_XML}.presentationml.slide+xml"
        if notes:
            target = _relation(1, f"{_OFFICE}/notesSlide", f"../notesSlides/notesSlide{number}.xml")
            parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = _relations(target)
            part = f"ppt/notesSlides/notesSlide{number}.xml"
            parts[part] = f"<p:notes {_P}>{_shapes(('body', notes))}</p:notes>"
            types[part] = f"{_OPEN_XML}.presentationml.notesSlide+xml"
    parts["ppt/presentation.xml"] = f"<p:presentation {_P}><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>"
    parts["ppt/_rels/presentation.xml.rels"] = _relations(relations)
    types["ppt/presentation.xml"] = f"{_OPEN_XML}.presentationml.presentation.main+xml"
    return pack(_package(parts, types, "ppt/presentation.xml", None))


def write_encrypted_office() -> bytes:
    """What Office writes for a protected document: an OLE container whose directory names an encrypted package."""
    header = bytearray(512)
    header[:8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
    struct.pack_into("<HHHHH", header, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<II", header, 44, 1, 1)
    directory = b"".join(_ole_entry(name) for name in ("Root Entry", "EncryptionInfo", "EncryptedPackage", ""))
    return bytes(header) + b"\xff" * 512 + directory


def _ole_entry(name: str) -> bytes:
    encoded = name.encode("utf-16-le")
    return encoded.ljust(64, b"\0") + struct.pack("<H", len(encoded) + 2) + bytes(62)


def _package(parts: dict[str, str], types: dict[str, str], main: str, title: str | None) -> dict[str, str]:
    relations = _relation(1, f"{_OFFICE}/officeDocument", main)
    if title is not None:
        parts = parts | {"docProps/core.xml": _core(title)}
        types = types | {"docProps/core.xml": "application/vnd.openxmlformats-package.core-properties+xml"}
        relations += _relation(2, f"{_PACKAGE}/relationships/metadata/core-properties", "docProps/core.xml")
    overrides = "".join(f'<Override PartName="/{part}" ContentType="{type_}"/>' for part, type_ in types.items())
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    content_types = (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" ContentType="{rels}"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )
    return {"[Content_Types].xml": content_types, "_rels/.rels": _relations(relations)} | parts


def _core(title: str) -> str:
    return (
        f'<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{escape(title)}</dc:title></cp:coreProperties>'
    )


def _relations(entries: str) -> str:
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{entries}</Relationships>'


def _relation(number: int, kind: str, target: str) -> str:
    return f'<Relationship Id="rId{number}" Type="{kind}" Target="{target}"/>'


def _paragraph(text: str) -> str:
    heading = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>' if text.startswith("# ") else ""
    return f"<w:p>{heading}<w:r><w:t>{escape(text.removeprefix('# '))}</w:t></w:r></w:p>"


def _cell(column: int, row: int, value: str | float) -> str:
    place = f"{chr(ord('A') + column)}{row}"
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def _shapes(*texts: tuple[str, str]) -> str:
    shapes = "".join(
        f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="{kind}"/><p:cNvSpPr/><p:nvPr><p:ph type="{kind}"/></p:nvPr>'
        f"</p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>"
        for number, (kind, text) in enumerate(texts, start=2)
    )
    return f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
