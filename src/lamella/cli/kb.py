"""`lamella kb`: knowledge bases, their documents, and who may read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import BaseArgument, CommandOptions, JsonOption, id_of, moment, show, whole
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.client import Object
from lamella.core.errors import InvalidRequest

kb = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Knowledge bases, their documents, and who may read them."
)
cli.add_typer(kb, name="kb")

LOOK_SECONDS = 0.2
"""Between two looks at a document that is made ready."""

SubjectArgument = Annotated[str, typer.Argument(metavar="WHO", help="The name or the id of a user or a group.")]


@kb.command("list")
def list_command(data: DataOption = None, key: KeyOption = None, json: JsonOption = False) -> None:
    """List the bases that you can see, with your level of access."""
    ask = CommandOptions(data, key, json)
    show(ask, lambda api: whole(api, "/knowledge-bases"), lambda found: [_line(one) for one in found["data"]])


@kb.command("create")
def create_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the base.")],
    description: Annotated[str, typer.Option(help="A description.")] = "",
    visible: Annotated[
        bool, typer.Option("--visible", help="Show name and description to members without a grant.")
    ] = False,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Create a knowledge base."""

    async def ask(api: Api) -> Object:
        return await api.post("/knowledge-bases", {"name": name, "description": description, "visible": visible})

    show(CommandOptions(data, key, json), ask, lambda found: [_line(found)])


@kb.command("describe")
def describe_command(
    base: BaseArgument,
    description: Annotated[str | None, typer.Option(help="A description for people.")] = None,
    hint: Annotated[str | None, typer.Option(help="A hint for restricted readers.")] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(help="A keyword for restricted readers; may be repeated, empty removes all.")
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Describe a base of yours. Options that are left out do not change."""
    changes = {
        "description": description,
        "hint": hint,
        "keywords": None if keyword is None else [k for k in keyword if k],
    }

    async def ask(api: Api) -> Object:
        return await api.ask("PATCH", await _path(api, base), json={k: v for k, v in changes.items() if v is not None})

    show(CommandOptions(data, key, json), ask, lambda found: [_line(found)])


@kb.command("level")
def level_command(
    base: BaseArgument,
    level: Annotated[
        Literal["summary", "form", "existence"],
        typer.Argument(help="Summaries; choices of a form; or whether there is something.", show_default=False),
    ],
    field: Annotated[
        list[str] | None, typer.Option(help='A field of the form, as in "Notice: a month | longer | not said".')
    ] = None,
    contact: Annotated[str | None, typer.Option(help="Whom to ask, if it is not you.")] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Say how much restricted readers get of a base of yours."""
    said: Object = {"restricted_level": level} | ({} if contact is None else {"contact": contact})
    if field is not None:
        parts = [one.partition(":") for one in field]
        said["form"] = [
            {"name": name.strip(), "choices": [choice.strip() for choice in choices.split("|")]}
            for name, _, choices in parts
        ]

    async def ask(api: Api) -> Object:
        return await api.ask("PATCH", await _path(api, base), json=said)

    show(CommandOptions(data, key, json), ask, lambda found: [f"{found['name']}: {found['restricted_level']}"])


@kb.command("delete")
def delete_command(
    base: BaseArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Delete a base with everything in it."""

    async def ask(api: Api) -> Object:
        return await api.ask("DELETE", await _path(api, base))

    show(CommandOptions(data, key, json), ask, lambda _: [f"{base} is gone."])


@kb.command("grant")
def grant_command(
    base: BaseArgument,
    who: SubjectArgument,
    level: Annotated[
        Literal["full", "restricted", "none", "remove"],
        typer.Argument(help="The level of access; `remove` deletes the grant.", show_default=False),
    ],
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Set a user's or a group's access to a base of yours."""

    async def ask(api: Api) -> Object:
        path = f"{await _path(api, base)}/grants/{await id_of(api, ['/users', '/groups'], who)}"
        if level == "remove":
            await api.ask("DELETE", path)
            return {"name": who, "level": None}
        return await api.ask("PUT", path, json={"level": level})

    show(
        CommandOptions(data, key, json),
        ask,
        lambda found: [
            f"{found['name']}: {found['level'] or 'no grant'}",
            *([found["warning"]] if found.get("warning") else []),
        ],
    )


@kb.command("grants")
def grants_command(
    base: BaseArgument,
    changes: Annotated[bool, typer.Option("--changes", help="List every change of the grants instead.")] = False,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """List who may read a base of yours, or all changes of its grants."""

    async def ask(api: Api) -> Object:
        path = await _path(api, base)
        return await (whole(api, f"{path}/grant-changes") if changes else api.get(f"{path}/grants"))

    def lines(found: Object) -> list[str]:
        if changes:
            return [_change(one) for one in found["data"]]
        return [f"{one['kind']} {one['name']} · {one['level']}" for one in found["data"]] or ["You alone."]

    show(CommandOptions(data, key, json), ask, lines)


async def _path(api: Api, base: str) -> str:
    return f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}"


def _line(one: Object) -> str:
    return " · ".join([one["id"], one["name"], "yours" if one["is_owner"] else one["level"]])


def _change(one: Object) -> str:
    levels = f"{one['from'] or 'no grant'} → {one['to'] or 'no grant'}"
    return f"{moment(one['at'])} · {one['kind']} {one['name']} · {levels} · by {one['by']}"


@kb.command("add")
def add_command(
    base: BaseArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Documents to add.", exists=True, dir_okay=False)
    ],
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Add documents to a base of yours, and wait until they are indexed."""

    async def ask(api: Api) -> Object:
        path = f"{await _path(api, base)}/documents"
        added = []
        for file in files:
            content = await asyncio.to_thread(file.read_bytes)
            added.append(await api.ask("POST", path, files={"file": (file.name, content)}))
        return {"object": "list", "data": [await _settled(api, f"{path}/{one['id']}") for one in added]}

    show(CommandOptions(data, key, json), ask, lambda found: [_document(one) for one in found["data"]])


@kb.command("status")
def status_command(
    base: BaseArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False
) -> None:
    """Show the documents of a base with their states."""

    async def ask(api: Api) -> Object:
        path = f"{await _path(api, base)}/documents"
        return {**await whole(api, path), "totals": (await api.get(path, limit=1))["totals"]}

    def lines(found: Object) -> list[str]:
        totals = found["totals"]
        whole_line = f"{totals['found']} of {totals['documents']} documents are found, {totals['passages']} passages"
        return [whole_line, *(_document(one) for one in found["data"])]

    show(CommandOptions(data, key, json), ask, lines)


@kb.command("search")
def search_command(
    base: BaseArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="The words to search for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Passages at most.")] = 10,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Search the documents of a base. Shows passages with scores."""

    async def ask(api: Api) -> Object:
        base_id = await id_of(api, ["/knowledge-bases"], base)
        body = {"query": " ".join(words), "knowledge_base_ids": [base_id], "max_results": limit}
        return await api.post("/knowledge-bases/search", body)

    show(CommandOptions(data, key, json), ask, _hits)


async def _settled(api: Api, path: str) -> Object:
    """A document once it is ready, has failed, or waits for something; until then it is looked at again and again."""
    while True:
        found = await api.get(path)
        if found["state"] in ("ready", "failed") or found["code"] is not None:
            return found
        await asyncio.sleep(LOOK_SECONDS)


def _document(one: Object) -> str:
    """`doc_… · guide.md · ready · 12 passages`, with the reason if there is one."""
    passages = "1 passage" if one["passages"] == 1 else f"{one['passages']} passages"
    if one["embedded"] < one["passages"]:
        passages += f", {one['embedded']} with vectors"
    return " · ".join([one["id"], one["name"], one["state"], passages, *([one["reason"]] if one["reason"] else [])])


def _hits(found: Object) -> list[str]:
    lines = [f"Searched by words alone: {found['lexical_only_reason']}"] if found["lexical_only_reason"] else []
    for hit in found["data"]:
        page = [f"page {hit['page']}"] if hit["page"] is not None else []
        place = " · ".join([hit["title"], *page, *([" › ".join(hit["headings"])] if hit["headings"] else [])])
        scores = f"{hit['score']:.3f} (words {hit['words']:.2f}, similarity {hit['similarity']:.2f})"
        lines += [f"{scores} · {place}", f"  {' '.join(hit['snippet']['text'].split())}"]
    return lines if found["data"] else ["Nothing was found.", *lines]


@kb.command("preview")
def preview_command(
    base: BaseArgument,
    question: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION", help="The question of a reader.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="A file with a question on each line.")] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Show the answer that a restricted reader would get from a base of yours, to a question or to each of a file."""
    lines = file.read_text("utf-8").splitlines() if file is not None else [" ".join(question or [])]
    questions = [said for line in lines if (said := line.strip())]
    if not questions:
        raise InvalidRequest("There is no question.", hint="Write one, or name a file with -f.")

    async def ask(api: Api) -> Object:
        path = f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}/restricted-preview"
        found = [await api.post(path, {"query": one}) for one in questions]
        return found[0] if file is None else {"data": found}

    show(CommandOptions(data, key, json), ask, _preview if file is None else _previews)


@kb.command("ready")
def ready_command(base: BaseArgument, data: DataOption = None, key: KeyOption = None, json: JsonOption = False) -> None:
    """Show what a base of yours lacks for restricted readers, and what they are told of it."""

    async def ask(api: Api) -> Object:
        return await api.get(f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}/readiness")

    show(CommandOptions(data, key, json), ask, _readiness)


def _readiness(found: Object) -> list[str]:
    languages = ", ".join(f"{count} in {code}" for code, count in found["languages"].items())
    unknown = found["unknown_language"]
    return [
        f"second model: {'set' if found['second_model'] else 'not set (LAMELLA_RESTRICTED_MODEL)'}",
        f"word lists: {'installed' if found['word_lists'] else 'not installed (lamella[restricted])'}",
        f"{found['documents']} documents{f': {languages}' if languages else ''}",
        *([f"in no language that the guard knows: {', '.join(unknown)}"] if unknown else []),
        *[
            f"{one['field']} “{one['text']}” · told: {one['told'] or 'nothing'} · cut for: {', '.join(one['cuts'])}"
            for one in found["told"]
            if one["cuts"]
        ],
        f"{len(found['terms'])} names found: {', '.join(found['terms'][:50]) or 'none'}",
    ]


def _previews(found: Object) -> list[str]:
    """Each question with what is released and what is cut, and both shares at the end."""
    lines, refused, said, cut = [], 0, 0, 0
    for one in found["data"]:
        safe = one["safe"]
        refused += safe["decision"] == "refuse"
        lines.append(f"{one['query']} · {safe['decision']}, {safe['reason']}")
        for sentence in (sentence for sentence in one["sentences"] if sentence["said"]):
            said += 1
            cut += not sentence["released"]
            why = f"({', '.join(sentence['cuts']) or 'refused'})"
            lines.append(f"  + {sentence['released']}" if sentence["released"] else f"  - {sentence['said']} {why}")
    count = len(found["data"])
    return [*lines, f"{refused} of {count} questions refused, {cut} of {said} sentences cut"]


@kb.command("uses")
def uses_command(
    base: BaseArgument,
    readers: Annotated[bool, typer.Option("--readers", help="By reader, with alerts, for the last 30 days.")] = False,
    document: Annotated[str | None, typer.Option(help="What went out of this document, passage by passage.")] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """List the questions that restricted readers asked a base of yours, with the outcomes and what they got."""

    async def ask(api: Api) -> Object:
        path = f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}"
        if document is not None:
            return await api.get(f"{path}/documents/{await id_of(api, [f'{path}/documents'], document)}/disclosed")
        return await (api.get(f"{path}/restricted-readers") if readers else whole(api, f"{path}/restricted-uses"))

    lines = _disclosed if document is not None else _reader if readers else _use
    show(
        CommandOptions(data, key, json),
        ask,
        lambda found: [line for one in found["data"] for line in lines(one)] or ["Nobody has asked."],
    )


@kb.command("terms")
def terms_command(
    base: BaseArgument,
    confirm: Annotated[list[str] | None, typer.Option(help="A word or phrase that is a name. May be repeated.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="A word that restricted readers may be told.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Neither any more.")] = None,
    data: DataOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """List the names that the documents of a base of yours give, and correct them."""
    confirmed, allowed, dropped = (set(words or ()) for words in (confirm, allow, drop))

    async def ask(api: Api) -> Object:
        path = f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}/restricted-terms"
        found = await api.get(path)
        if not confirmed and not allowed and not dropped:
            return found
        now = {
            "confirmed": sorted({*found["confirmed"], *confirmed} - allowed - dropped),
            "allowed": sorted({*found["allowed"], *allowed} - confirmed - dropped),
        }
        return await api.ask("PUT", path, json=now)

    show(CommandOptions(data, key, json), ask, _terms)


def _terms(found: Object) -> list[str]:
    lines = [f"confirmed · {word}" for word in found["confirmed"]] + [f"allowed · {word}" for word in found["allowed"]]
    if found["state"] == "indexing":
        return [*lines, "The names are still being found."]
    lines += [f"{one['count']} × {one['term']} · {one['language']}, {one['kind']}" for one in found["found"]]
    return lines or ["No names were found."]


def _preview(found: Object) -> list[str]:
    safe = found["safe"]
    lines = [f"{safe['decision']} · {safe['reason']}", *([safe["summary"]] if safe["summary"] else [])]
    if found["said"] not in ("", safe["summary"]):
        removed = ", ".join(found["removed"]) or "nothing"
        lines += [f"The second model said (the guard found: {removed}):", f"  {found['said']}"]
    titles = dict.fromkeys(passage["title"] for passage in found["passages"])
    return [*lines, f"{len(found['passages'])} passages of: {', '.join(titles) or 'no documents'}"]


def _use(one: Object) -> list[str]:
    removed = f" · the guard found {', '.join(one['removed'])}" if one["removed"] else ""
    said = f"{moment(one['at'])} · {one['name']} · {one['question']} · {one['decision']}, {one['reason']}{removed}"
    return [said, *([f"  {one['released']}"] if one["released"] else [])]


def _reader(one: Object) -> list[str]:
    counts = f"{one['answers']} answers, {one['short']} short"
    alerts = f"{one['limited']} over a limit, {one['covered']} cut as covered, {one['named']} cut for names"
    return [f"{one['name']} · {counts} · {alerts} · last {moment(one['last_at'])}"]


def _disclosed(one: Object) -> list[str]:
    lines = [f"{one['id']} · {' '.join(one['text'].split()) or '(an earlier version)'}"]
    for reader in one["readers"]:
        share = f"{reader['words']} of {reader['out_of']} words, {reader['most']:.0%} of one sentence"
        lines.append(f"  {reader['name']} · {share}")
        said = dict.fromkeys(sentence for told in reader["disclosures"] for sentence in told["sentences"])
        lines += [f"    {sentence}" for sentence in said]
    return lines
