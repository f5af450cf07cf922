"""Files, their texts and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import RowMapping

from lamella.core.messages import (
    Attachment,
    Image,
)
from lamella.core.records import (
    File,
)
from lamella.storage.columns import (
    moment_text,
)
from lamella.storage.failures import damaged, unicode_only
from lamella.storage.mapping.values import Row

Attached = Mapping[str, tuple[Attachment, ...]]
"""Attachments by the id of their message."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The texts and the pictures of some files, by id."""

    texts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)


def file_row(owner: str, file: File) -> Row:
    """The row of a file."""
    return {
        "id": file.id,
        "owner": owner,
        "name": file.name,
        "media_type": file.media_type,
        "size": file.size,
        "status": file.status,
        "tokens": file.tokens,
        "created_at": moment_text(file.created_at),
        "pages": file.pages,
        "code": file.code,
        "reason": file.reason,
        "width": file.width,
        "height": file.height,
    }


def file_of(row: RowMapping) -> File:
    """The file of a row."""
    return File(
        id=row["id"],
        name=row["name"],
        media_type=row["media_type"],
        size=row["size"],
        status=row["status"],
        tokens=row["tokens"],
        created_at=datetime.fromisoformat(row["created_at"]),
        pages=row["pages"],
        code=row["code"],
        reason=row["reason"],
        width=row["width"],
        height=row["height"],
    )


def file_text_row(owner: str, file_id: str, text: str) -> Row:
    """The row of a file's text."""
    with unicode_only():
        return {"file_id": file_id, "owner": owner, "data": text.encode()}


def file_text_of(row: RowMapping) -> str:
    """The text of a file."""
    try:
        return bytes(row["data"]).decode()
    except UnicodeDecodeError as error:
        raise damaged(f"the text of {row['file_id']}", error) from error


def image_row(owner: str, image: Image) -> Row:
    """The row of a picture."""
    return {
        "file_id": image.file_id,
        "owner": owner,
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "digest": image.digest,
        "data": image.data,
    }


def image_of(row: RowMapping) -> Image:
    """The picture of a row."""
    return Image(row["file_id"], row["media_type"], row["width"], row["height"], row["digest"], data=bytes(row["data"]))


def attachment_of(file: File, document: int, use: int, contents: Contents) -> Attachment:
    """A file as an attachment with its number, and which use of it in the conversation this is."""
    return Attachment(
        file_id=file.id,
        document=document,
        title=file.name,
        media_type=file.media_type,
        size=file.size,
        tokens=file.tokens,
        text=contents.texts.get(file.id),
        reason=file.reason,
        image=contents.images.get(file.id),
        use=use,
    )
