"""Agents, projects, versions of the system prompt, pictures, and what is not in a request's window."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "agents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("reminder", sa.Text(), nullable=False),
        sa.Column("replaces_system", sa.Boolean(), nullable=False),
        sa.Column("tools", sa.Text(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("layout", sa.String(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agents")),
    )
    op.create_index("ix_agents_owner_id", "agents", ["owner", "id"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("instructions", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index("ix_projects_owner_id", "projects", ["owner", "id"], unique=False)
    op.create_table(
        "system_prompts",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "version", name=op.f("pk_system_prompts")),
    )
    # Tables that exist are made anew, so that their statements read as those of a new database.
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("agent_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("project_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("system_prompt_version", sa.Integer(), server_default="0", nullable=False))
        batch_op.create_foreign_key(
            batch_op.f("fk_conversations_agent_id"), "agents", ["agent_id"], ["id"], ondelete="SET NULL"
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_conversations_project_id"), "projects", ["project_id"], ["id"], ondelete="SET NULL"
        )
        batch_op.create_index(batch_op.f("ix_conversations_agent_id"), ["agent_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_conversations_project_id"), ["project_id"], unique=False)
    with op.batch_alter_table("files", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("width", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("height", sa.Integer(), nullable=True))
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("absent", sa.Text(), server_default="[]", nullable=False))
    op.create_table(
        "file_images",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_file_images_file_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("file_id", name=op.f("pk_file_images")),
    )
    op.create_table(
        "project_files",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_project_files_project_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_project_files_file_id")),
        sa.PrimaryKeyConstraint("project_id", "file_id", name=op.f("pk_project_files")),
    )
    op.create_index(op.f("ix_project_files_file_id"), "project_files", ["file_id"], unique=False)
    op.create_table(
        "project_documents",
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("document", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_project_documents_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_project_documents_file_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("conversation_id", "file_id", name=op.f("pk_project_documents")),
    )
    op.create_index(op.f("ix_project_documents_file_id"), "project_documents", ["file_id"], unique=False)
