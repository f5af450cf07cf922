"""The words of passages as pages of runs, the same on every database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from lamella.storage.passages import take_over_words

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None
contracts = "the words of passages move to pages: an older process finds none of what newer ones index"


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "postings",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("shelf", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", _text(), nullable=False),
        sa.Column("last", sa.BigInteger()),
        sa.Column("passages", sa.Integer()),
        sa.Column("entries", sa.LargeBinary()),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "shelf", "first", "term", name=op.f("pk_postings")),
    )
    runs = sa.text("term = ''")
    op.create_index(
        "ix_postings_runs", "postings", ["owner", "shelf", "first"], sqlite_where=runs, postgresql_where=runs
    )
    take_over_words(op.get_bind())
    if op.get_bind().dialect.name == "sqlite":
        for kind in ("recall", "knowledge"):
            op.execute(f"DROP TRIGGER {kind}_words_forget")
            op.execute(f"DROP TABLE {kind}_postings")
            op.execute(f"DROP TABLE {kind}_words")


def _text() -> sa.String:
    return sa.String().with_variant(sa.String(collation="C"), "postgresql")
