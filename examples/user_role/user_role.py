"""A provider of dynamic context: tells the model who asks and what role they have."""

from __future__ import annotations

from lamella.chat.dynamic_context import BlockScope
from lamella.core.access import Role

MAY = {
    Role.ADMIN: "They keep the users and groups of this server: explain settings and administration in full.",
    Role.MEMBER: "They can't change this server: where a change is needed, send them to an admin.",
}


class UserRole:
    """Adds the user's name and role. Both come from the key that the request was made with, never from the request."""

    name = "user_role"
    order = 10

    async def block(self, scope: BlockScope) -> str | None:
        """The block; the same for every message of a user, so that it is sent once in a conversation."""
        who = scope.identity
        name = " ".join(who.name.split())
        return f"The user is {name}, role {who.role.value}. {MAY[who.role]}"
