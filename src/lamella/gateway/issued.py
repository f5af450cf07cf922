"""Which upstream keeps a response, so that what its owner asks of it later goes there.

A response's id is seen in the answer that brings it. It is remembered with its owner before the owner gets it, so that
the first poll of a background response finds its way. The newest are held in memory, all are stored for 30 days.
"""

from __future__ import annotations

import re

from lamella.core.records import Caller, StoredResponse
from lamella.gateway.exchange import Exchange
from lamella.storage import Store

HELD = 20_000
"""Responses whose upstream is held in memory; about 3 MB."""

LOOKED_AT = 8_192
"""Bytes at the beginning of an answer in which its id is looked for."""

_ID = re.compile(rb'"id"\s*:\s*"(resp_[\w-]{1,120})"')


class IssuedResponses:
    """The upstreams of responses, by owner and id."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[tuple[str, str], str] = {}

    def look(self, exchange: Exchange) -> bool:
        """Remember the response of an exchange, as soon as its id is there. Returns whether it may still come."""
        if exchange.size > LOOKED_AT and len(exchange.answer) != 1:
            return False
        found = _ID.search(b"".join(exchange.answer)[:LOOKED_AT])
        if found is not None:
            exchange.response_id = found[1].decode()
            self._held[exchange.caller.user_id, exchange.response_id] = exchange.route.account
            if len(self._held) > HELD:
                self._held = dict(list(self._held.items())[HELD // 2 :])
        return found is None

    async def keep(self, exchange: Exchange) -> None:
        """Store the upstream of an exchange's response, if that has any."""
        if exchange.response_id is not None:
            made = StoredResponse(exchange.response_id, exchange.at, account=exchange.route.account)
            await self._store.responses.add_response(exchange.caller, made)

    async def account(self, caller: Caller, response_id: str) -> str | None:
        """The account at the upstream that issued a response to this caller; None if that is not known."""
        held = self._held.get((caller.user_id, response_id))
        if held is not None:
            return held
        stored = await self._store.responses.response(caller, response_id)
        return stored.account if stored is not None else None

    async def is_somebodys(self, response_id: str) -> bool:
        """Whether anybody is known to own a response."""
        return any(id == response_id for _, id in self._held) or await self._store.responses.is_known(response_id)
