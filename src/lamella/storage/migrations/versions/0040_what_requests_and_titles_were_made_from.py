"""What requests and titles were made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What is there already counts as made from everything that its conversation was made from."""
    # The tables are made anew, so that their statements read as those of a new database.
    for table, column in (("requests", "made_from"), ("conversations", "title_made_from")):
        with op.batch_alter_table(table, recreate="always") as batch_op:
            batch_op.add_column(sa.Column(column, sa.Text(), nullable=False, server_default="[]"))
    connection = op.get_bind()
    set_requests = sa.text("UPDATE requests SET made_from = :bases WHERE conversation_id = :id")
    set_title = sa.text("UPDATE conversations SET title_made_from = :bases WHERE id = :id AND titled_by = 'model'")
    for conversation_id, bases in _made_from(connection):
        told = {"id": conversation_id, "bases": json.dumps(sorted(bases), separators=(",", ":"))}
        connection.execute(set_requests, told)
        connection.execute(set_title, told)


def _made_from(connection: sa.Connection) -> Iterator[tuple[str, set[str]]]:
    """The bases of which messages and summaries hold something, by conversation."""
    said = sa.text(
        "SELECT turns.conversation_id, messages.made_from, messages.results FROM messages "
        "JOIN turns ON turns.id = messages.turn_id "
        "WHERE messages.made_from <> '[]' OR messages.results LIKE '%knowledge_base%' ORDER BY turns.conversation_id"
    )
    summed = sa.text("SELECT conversation_id, made_from, '[]' FROM sessions WHERE made_from <> '[]'")
    found: dict[str, set[str]] = {}
    for query in (said, summed):
        for conversation_id, bases, results in connection.execute(query):
            held = found.setdefault(conversation_id, set())
            held.update(json.loads(bases))
            held.update(_named(json.loads(results)))
    yield from found.items()


def _named(value: Any) -> Iterator[str]:
    """The bases that results name, in whatever depth: what people see of a result is JSON in a text."""
    if isinstance(value, list):
        for one in value:
            yield from _named(one)
    elif isinstance(value, dict):
        if isinstance(base := value.get("knowledge_base_id"), str):
            yield base
        yield from (one for one in value.get("knowledge_bases", ()) if isinstance(one, str))
        for one in value.values():
            yield from _named(one)
    elif isinstance(value, str) and value.startswith("{") and "knowledge_base" in value:
        try:
            yield from _named(json.loads(value))
        except ValueError:
            yield "?"
