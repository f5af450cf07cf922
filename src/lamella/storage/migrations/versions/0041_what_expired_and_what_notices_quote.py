"""When packets and request bodies expired, and what notices quote."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

_FIGURES_ONLY = ("status", "context", "help", "new", "clear", "prune", "undo", "queue", "abort", "stop", "cancel")


def upgrade() -> None:
    """Apply this revision. A notice that is there already counts as quoting all that its conversation was made from."""
    # The tables are made anew, so that their statements read as those of a new database.
    for table in ("turns", "requests"):
        with op.batch_alter_table(table, recreate="always") as batch_op:
            batch_op.add_column(sa.Column("expired", sa.Text()))
    with op.batch_alter_table("notices", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("made_from", sa.Text(), nullable=False, server_default="[]"))
    connection = op.get_bind()
    found: dict[str, set[str]] = {}
    for table in ("requests", "sessions"):
        query = sa.text(f"SELECT DISTINCT conversation_id, made_from FROM {table} WHERE made_from <> '[]'")
        for conversation_id, bases in connection.execute(query):
            found.setdefault(conversation_id, set()).update(json.loads(bases))
    plain: sa.BindParameter[str] = sa.bindparam("plain", _FIGURES_ONLY, expanding=True)
    quoting = sa.text(
        "UPDATE notices SET made_from = :bases WHERE conversation_id = :id AND kind <> 'pruned' "
        "AND NOT (kind = 'command' AND name IN :plain AND data NOT LIKE '%\"error\"%')"
    ).bindparams(plain)
    for conversation_id, bases in found.items():
        told = json.dumps(sorted(bases), separators=(",", ":"))
        connection.execute(quoting, {"id": conversation_id, "bases": told})
