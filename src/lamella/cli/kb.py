"""`lamella kb`: knowledge bases, their documents, and who may read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from lamella.cli.api import Api
from lamella.cli.api_commands import Answer, BaseArgument, asks, id_of, moment, whole
from lamella.cli.main import cli
from lamella.client import Object
from lamella.core.errors import InvalidRequest

kb = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Knowledge bases, their documents, and who may read them."
)
cli.add_typer(kb, name="kb")

LOOK_SECONDS = 0.2
"""Between two looks at a document that is made ready."""

SubjectArgument = Annotated[str, typer.Argument(metavar="WHO", help="The name or the id of a user or a group.")]


@asks(kb, "list")
async def list_command(api: Api) -> Answer:
    """List the bases that you can see, with your level of access."""
    found = await whole(api, "/knowledge-bases")
    return found, [_line(one) for one in found["data"]]


@asks(kb, "create")
async def create_command(
    api: Api,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the base.")],
    description: Annotated[str, typer.Option(help="A description.")] = "",
    visible: Annotated[
        bool, typer.Option("--visible", help="Show name and description to members without a grant.")
    ] = False,
) -> Answer:
    """Create a knowledge base."""
    body = {"name": name, "description": description, "visible": visible}
    found = await api.post("/knowledge-bases", body)
    return found, [_line(found)]


@asks(kb, "describe")
async def describe_command(
    api: Api,
    base: BaseArgument,
    description: Annotated[str | None, typer.Option(help="A description for people.")] = None,
    hint: Annotated[str | None, typer.Option(help="A hint for restricted readers.")] = None,
    keyword: Annotated[
        list[str] | None, typer.Option(help="A keyword for restricted readers; may be repeated, empty removes all.")
    ] = None,
) -> Answer:
    """Describe a base of yours. Options that are left out do not change."""
    changes = {
        "description": description,
        "hint": hint,
        "keywords": None if keyword is None else [k for k in keyword if k],
    }
    found = await api.ask("PATCH", await _path(api, base), json={k: v for k, v in changes.items() if v is not None})
    return found, [_line(found)]


@asks(kb, "level")
async def level_command(
    api: Api,
    base: BaseArgument,
    level: Annotated[
        Literal["summary", "form", "existence"],
        typer.Argument(help="Summaries; choices of a form; or whether there is something.", show_default=False),
    ],
    field: Annotated[
        list[str] | None, typer.Option(help='A field of the form, as in "Notice: a month | longer | not said".')
    ] = None,
    contact: Annotated[str | None, typer.Option(help="Whom to ask, if it is not you.")] = None,
) -> Answer:
    """Say how much restricted readers get of a base of yours."""
    said: Object = {"restricted_level": level} | ({} if contact is None else {"contact": contact})
    if field is not None:
        parts = [one.partition(":") for one in field]
        said["form"] = [
            {"name": name.strip(), "choices": [choice.strip() for choice in choices.split("|")]}
            for name, _, choices in parts
        ]
    found = await api.ask("PATCH", await _path(api, base), json=said)
    return found, [f"{found['name']}: {found['restricted_level']}"]


@asks(kb, "delete")
async def delete_command(api: Api, base: BaseArgument) -> Answer:
    """Delete a base with everything in it."""
    return await api.ask("DELETE", await _path(api, base)), [f"{base} is gone."]


@asks(kb, "grant")
async def grant_command(
    api: Api,
    base: BaseArgument,
    who: SubjectArgument,
    level: Annotated[
        Literal["full", "restricted", "none", "remove"],
        typer.Argument(help="The level of access; `remove` deletes the grant.", show_default=False),
    ],
) -> Answer:
    """Set a user's or a group's access to a base of yours."""
    path = f"{await _path(api, base)}/grants/{await id_of(api, ['/users', '/groups'], who)}"
    if level == "remove":
        await api.ask("DELETE", path)
        return {"name": who, "level": None}, [f"{who}: no grant"]
    found = await api.ask("PUT", path, json={"level": level})
    return found, [f"{found['name']}: {found['level']}", *([found["warning"]] if found.get("warning") else [])]


@asks(kb, "grants")
async def grants_command(
    api: Api,
    base: BaseArgument,
    changes: Annotated[bool, typer.Option("--changes", help="List every change of the grants instead.")] = False,
) -> Answer:
    """List who may read a base of yours, or all changes of its grants."""
    path = await _path(api, base)
    if changes:
        found = await whole(api, f"{path}/grant-changes")
        return found, [_change(one) for one in found["data"]]
    found = await api.get(f"{path}/grants")
    return found, [f"{one['kind']} {one['name']} · {one['level']}" for one in found["data"]] or ["You alone."]


async def _path(api: Api, base: str) -> str:
    return f"/knowledge-bases/{await id_of(api, ['/knowledge-bases'], base)}"


def _line(one: Object) -> str:
    return " · ".join([one["id"], one["name"], "yours" if one["is_owner"] else one["level"]])


def _change(one: Object) -> str:
    levels = f"{one['from'] or 'no grant'} → {one['to'] or 'no grant'}"
    return f"{moment(one['at'])} · {one['kind']} {one['name']} · {levels} · by {one['by']}"


@asks(kb, "add")
async def add_command(
    api: Api,
    base: BaseArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Documents to add.", exists=True, dir_okay=False)
    ],
) -> Answer:
    """Add documents to a base of yours, and wait until they are indexed."""
    path = f"{await _path(api, base)}/documents"
    added = []
    for file in files:
        content = await asyncio.to_thread(file.read_bytes)
        added.append(await api.ask("POST", path, files={"file": (file.name, content)}))
    ready = [await _settled(api, f"{path}/{one['id']}") for one in added]
    return {"object": "list", "data": ready}, [_document(one) for one in ready]


@asks(kb, "status")
async def status_command(api: Api, base: BaseArgument) -> Answer:
    """Show the documents of a base with their states."""
    path = f"{await _path(api, base)}/documents"
    found = await whole(api, path)
    totals = (await api.get(path, limit=1))["totals"]
    line = f"{totals['found']} of {totals['documents']} documents are found, {totals['passages']} passages"
    return {**found, "totals": totals}, [line, *(_document(one) for one in found["data"])]


@asks(kb, "search")
async def search_command(
    api: Api,
    base: BaseArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="The words to search for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Passages at most.")] = 10,
) -> Answer:
    """Search the documents of a base. Shows passages with scores."""
    base_id = await id_of(api, ["/knowledge-bases"], base)
    body = {"query": " ".join(words), "knowledge_base_ids": [base_id], "max_results": limit}
    found = await api.post("/knowledge-bases/search", body)
    return found, _hits(found)


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


@asks(kb, "preview")
async def preview_command(
    api: Api,
    base: BaseArgument,
    question: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION", help="The question of a reader.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="A file with a question on each line.")] = None,
) -> Answer:
    """Show the answer that a restricted reader would get from a base of yours, to a question or to each of a file."""
    lines = (await asyncio.to_thread(file.read_text, "utf-8")).splitlines() if file else [" ".join(question or [])]
    questions = [said for line in lines if (said := line.strip())]
    if not questions:
        raise InvalidRequest("There is no question.", hint="Write one, or name a file with -f.")
    path = f"{await _path(api, base)}/restricted-preview"
    found = [await api.post(path, {"query": one}) for one in questions]
    return ({"data": found}, _previews({"data": found})) if file else (found[0], _preview(found[0]))


@asks(kb, "ready")
async def ready_command(api: Api, base: BaseArgument) -> Answer:
    """Show what a base of yours lacks for restricted readers, and what they are told of it."""
    found = await api.get(f"{await _path(api, base)}/readiness")
    return found, _readiness(found)


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


@asks(kb, "uses")
async def uses_command(
    api: Api,
    base: BaseArgument,
    readers: Annotated[bool, typer.Option("--readers", help="By reader, with alerts, for the last 30 days.")] = False,
    document: Annotated[str | None, typer.Option(help="What went out of this document, passage by passage.")] = None,
) -> Answer:
    """List the questions that restricted readers asked a base of yours, with the outcomes and what they got."""
    path = await _path(api, base)
    if document is not None:
        document_id = await id_of(api, [f"{path}/documents"], document)
        found, lines = await api.get(f"{path}/documents/{document_id}/disclosed"), _disclosed
    elif readers:
        found, lines = await api.get(f"{path}/restricted-readers"), _reader
    else:
        found, lines = await whole(api, f"{path}/restricted-uses"), _use
    return found, [line for one in found["data"] for line in lines(one)] or ["Nobody has asked."]


@asks(kb, "terms")
async def terms_command(
    api: Api,
    base: BaseArgument,
    confirm: Annotated[list[str] | None, typer.Option(help="A word or phrase that is a name. May be repeated.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="A word that restricted readers may be told.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Neither any more.")] = None,
) -> Answer:
    """List the names that the documents of a base of yours give, and correct them."""
    confirmed, allowed, dropped = (set(words or ()) for words in (confirm, allow, drop))
    path = f"{await _path(api, base)}/restricted-terms"
    found = await api.get(path)
    if confirmed or allowed or dropped:
        now = {
            "confirmed": sorted({*found["confirmed"], *confirmed} - allowed - dropped),
            "allowed": sorted({*found["allowed"], *allowed} - confirmed - dropped),
        }
        found = await api.ask("PUT", path, json=now)
    return found, _terms(found)


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
