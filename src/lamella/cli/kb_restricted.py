"""`lamella kb preview | uses`: restricted access as the owner of a base sees it."""

from __future__ import annotations

from typing import Annotated

import typer

from lamella.cli.api import Api
from lamella.cli.asking import Asking, BaseArgument, JsonOption, id_of, moment, show, whole
from lamella.cli.main import DataOption, KeyOption
from lamella.client import Object

restricted = typer.Typer()


@restricted.command("preview")
def preview_command(
    base: BaseArgument,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION", help="What a reader might ask.")],
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show what somebody with restricted access would be told by a base of yours."""

    async def ask(api: Api) -> Object:
        path = f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}/restricted-preview"
        return await api.post(path, {"query": " ".join(question)})

    show(Asking(data, key, json), ask, _preview)


@restricted.command("uses")
def uses_command(base: BaseArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False) -> None:
    """List who asked a base of yours with restricted access what, and how that ended."""

    async def ask(api: Api) -> Object:
        return await whole(api, f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}/restricted-uses")

    show(Asking(data, key, json), ask, lambda found: [_use(one) for one in found["data"]] or ["Nobody has asked."])


def _preview(found: Object) -> list[str]:
    safe = found["safe"]
    lines = [f"{safe['decision']} · {safe['reason']}", *([safe["summary"]] if safe["summary"] else [])]
    if found["said"] not in ("", safe["summary"]):
        removed = ", ".join(found["removed"]) or "nothing"
        lines += [f"The second model said (the guard found: {removed}):", f"  {found['said']}"]
    titles = dict.fromkeys(passage["title"] for passage in found["passages"])
    return [*lines, f"{len(found['passages'])} passages of: {', '.join(titles) or 'no documents'}"]


def _use(one: Object) -> str:
    removed = f" · the guard found {', '.join(one['removed'])}" if one["removed"] else ""
    return f"{moment(one['at'])} · {one['name']} · {one['question']} · {one['decision']}, {one['reason']}{removed}"
