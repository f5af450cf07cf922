"""Packets of ended turns, packed with the turn; long values of requests, prompts and blocks, deflated."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None
contracts = "columns of requests, pinned values and conversations become bytes, which an older process can not read"

PACKED = {
    "requests": ("head", "segments", "zones", "markers", "notes", "absent"),
    "pinned": ("data",),
    "conversations": ("system_prompt", "tools"),
}
"""Columns that were text. What they hold is read as it is; only new values are deflated."""


def upgrade() -> None:
    """Apply this revision."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    # On SQLite tables are made anew, so that their statements read as those of a new database.
    with op.batch_alter_table("turns", recreate="always" if is_sqlite else "never") as batch_op:
        batch_op.add_column(sa.Column("packets", sa.LargeBinary()))
    op.create_table(
        "recall_marks",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_recall_marks")),
    )
    _index("ix_sessions_unembedded", "sessions", "conversation_id", "summary IS NOT NULL AND embedding IS NULL")
    _index("ix_jobs_running", "jobs", "id", "status = 'running'")
    for table, columns in PACKED.items():
        if is_sqlite:
            _recreate(table, columns)
            continue
        op.alter_column("requests", "absent", server_default=None)
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE BYTEA USING convert_to({column}, 'UTF8')")


def _index(name: str, table: str, column: str, which: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(which), postgresql_where=sa.text(which))


def _recreate(table: str, columns: Sequence[str]) -> None:
    with op.batch_alter_table(table, recreate="always") as batch_op:
        for column in columns:
            batch_op.alter_column(column, type_=sa.LargeBinary(), existing_type=sa.Text(), server_default=None)
