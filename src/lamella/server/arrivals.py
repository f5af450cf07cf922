"""Notes that a message is on its way as soon as its request begins, so that an `/abort` sent after it holds for it."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lamella.chat import Arrival, Chat
from lamella.server.objects import PREFIX

_TURNS = re.compile(rf"{PREFIX}/conversations/([^/]+)/turns")
_IN_STATE = "arrival"


class Arrivals:
    """Stands before the entrance, where nobody is known yet: it lets nobody in, and only `/abort` reads its notes."""

    def __init__(self, app: ASGIApp, chat: Chat) -> None:
        self._app = app
        self._chat = chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _TURNS.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if named is None:
            await self._app(scope, receive, send)
            return
        with self._chat.sender.arriving(named[1]) as arrival:
            scope.setdefault("state", {})[_IN_STATE] = arrival
            await self._app(scope, receive, send)


async def _arrival(request: Request) -> Arrival:
    arrival: Arrival = request.scope["state"][_IN_STATE]
    return arrival


TheArrival = Annotated[Arrival, Depends(_arrival)]
