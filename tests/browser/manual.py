"""Writes a small PDF with three pages of text."""

from __future__ import annotations

HISTORY = tuple(f"Hall {n} was built in {1900 + n} and held the looms of the weaving mill." for n in range(18))
SERVICE = (
    "The cooling pump is serviced every 400 hours of operation.",
    "Spare filters for the cooling pump are kept in cabinet B.",
)
PAGES = (("Overview", *HISTORY), ("Maintenance", *HISTORY[:6], *SERVICE, *HISTORY[6:12]), ("Annex", *HISTORY))


def write_manual() -> bytes:
    """The file: a catalog, the list of pages, a font, then each page and its text."""
    numbers = [4 + 2 * at for at in range(len(PAGES))]
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(PAGES)}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, lines in zip(numbers, PAGES, strict=True):
        shown = "\n".join(f"({line}) Tj T*" for line in lines)
        text = f"BT /F1 11 Tf 15 TL 60 730 Td\n{shown}\nET"
        font = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {number + 1} 0 R{font}>>")
        objects.append(f"<</Length {len(text)}>>stream\n{text}\nendstream")
    return _file(objects)


def _file(objects: list[str]) -> bytes:
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    entries = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{entries}trailer<</Size {size}/Root 1 0 R>>\n"
    return f"{body}{table}startxref\n{len(body)}\n%%EOF\n".encode("ascii")
