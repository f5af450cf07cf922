"""Getting in: set-up, login and logout; who one is, and one's keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from lamella.app.accounts import LOGIN_LIFE, KeyOrder
from lamella.core.errors import NotFound
from lamella.server.access_schemas import LoginBody, NewKey, SetUpBody, issued_json, key_json, me_json, user_json
from lamella.server.asked import PREFIX, TheApp, TheCaller, TheIdentity, ThePage
from lamella.server.entrance import COOKIE, Entrance
from lamella.server.schemas import Json, list_json

router = APIRouter(prefix=PREFIX)


async def _entrance(request: Request) -> Entrance:
    entrance: Entrance | None = request.state.entrance
    if entrance is None:
        raise NotFound("This deployment knows its users by other means than keys.")
    return entrance


TheEntrance = Annotated[Entrance, Depends(_entrance)]


@router.get("/login")
async def what_it_takes(entrance: TheEntrance) -> Json:
    """What it takes to get in: whether accounts are set up, whether a key is needed, and whether setting them up takes
    the first-run token."""
    set_up = await entrance.accounts.are_set_up()
    return {
        "object": "login",
        "set_up": set_up,
        "key_needed": set_up or not entrance.is_local,
        "token_needed": not set_up and not entrance.holds_folder,
    }


@router.post("/login")
async def log_in(body: LoginBody, request: Request, response: Response, entrance: TheEntrance) -> Json:
    """Log a page in by a key: the answer sets a cookie that no script can read."""
    issued = await entrance.accounts.log_in(body.key.get_secret_value())
    identity = await entrance.accounts.identify(issued.secret or "")
    response.set_cookie(
        COOKIE,
        issued.secret or "",
        max_age=int(LOGIN_LIFE.total_seconds()),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    user = await entrance.accounts.directory.user(identity.caller.user_id)
    return me_json(user, identity, accounts=True)


@router.post("/logout")
async def log_out(request: Request, identity: TheIdentity, entrance: TheEntrance) -> Response:
    """End the login of a page; a key stays as it is."""
    await entrance.accounts.log_out(identity)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return answer


@router.post("/setup", status_code=201)
async def set_up(body: SetUpBody, entrance: TheEntrance) -> Json:
    """Turn accounts on: whoever is the one user so far becomes the first admin, and everybody needs a key."""
    entrance.check_token("" if body.token is None else body.token.get_secret_value())
    made = await entrance.accounts.set_up(body.name)
    return {**user_json(made.user), "key": issued_json(made.issued)}


@router.get("/me")
async def me(identity: TheIdentity, app: TheApp) -> Json:
    """Who asks, and what the key of this request may be used for."""
    user = await app.accounts.directory.user(identity.caller.user_id)
    return me_json(user, identity, accounts=await app.accounts.are_set_up())


@router.get("/keys")
async def keys(page: ThePage, app: TheApp, identity: TheIdentity) -> Json:
    """The caller's keys, newest first, revoked ones included."""
    found = await app.accounts.directory.keys(identity.caller.user_id, page)
    return list_json(found, lambda key: key_json(key, identity.key_id))


@router.post("/keys", status_code=201)
async def create_key(body: NewKey, app: TheApp, identity: TheIdentity) -> Json:
    """A new key of the caller's. Its `secret` is in this answer and nowhere else."""
    order = KeyOrder(identity.caller.user_id, body.name, body.scope_set(), body.end())
    return issued_json(await app.accounts.create_key(identity, order))


@router.get("/keys/{key_id}")
async def key(key_id: str, app: TheApp, identity: TheIdentity) -> Json:
    """One key."""
    return key_json(await app.accounts.directory.key(identity.caller.user_id, key_id), identity.key_id)


@router.delete("/keys/{key_id}")
async def revoke_key(key_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Revoke a key: it opens nothing from now on, nor do the pages that logged in by it."""
    return key_json(await app.accounts.revoke(caller.user_id, key_id))
