"""A data folder with something of everything, and what a client sees of it before and after it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lamella.app.app import App
from lamella.core.access import LOCAL_USER, GrantLevel, Group, Role, Subject, User
from lamella.core.records import Caller
from lamella.server.testing import Object, ServerClient

from .carrying import LANGUAGES, WORDS, bodies_of, carrier, rested
from .test_export_random import TIGHT, People
from .town import line_of, replacement_of

OWNER = Caller(LOCAL_USER)

DOCUMENTS = Path("/usr/share/doc")
LICENCES = Path("/usr/share/common-licenses")
SEARCHED = ("warranty", "licence", "copyright", "насос", "热泵", "mill", "March", "public domain")


def real_documents(count: int) -> list[Path]:
    """Texts that nobody here wrote: licences, and what Debian's packages say of themselves in all their languages."""
    licences = sorted(path for path in LICENCES.glob("*") if path.is_file())
    copyrights = sorted(DOCUMENTS.glob("*/copyright"), key=lambda path: (path.stat().st_size, str(path)))
    foreign = [path for path in copyrights if not path.read_bytes().isascii()]
    return [path for path in (*foreign[::-1], *licences, *copyrights[::-1]) if path.stat().st_size < 200_000][:count]


async def furnish(app: App, client: ServerClient, *, people: int = 2, deeds: int = 8, documents: int = 6) -> None:
    """Conversations of people who do anything, bases of real documents, grants, a client's line, keys."""
    for seed in range(people):
        somebody = People(Random(seed), client)
        await somebody.begin()
        await somebody.send()
        for _ in range(deeds):
            await somebody.act()
        await rested(client, somebody.conversation)
    await client.post("/system-prompts", {"text": f"Be exact. {LANGUAGES[2]}"})
    base = (await client.post("/knowledge-bases", {"name": "Licences", "description": WORDS}))["id"]
    for number, path in enumerate(real_documents(documents)):
        upload = {"file": (f"{number}-{path.parent.name}-{path.name}.txt", path.read_bytes())}
        (await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)).raise_for_status()
    for text in ("北方磨坊的热泵。" * 40, "Насос мельницы. " * 40):
        upload = {"file": ("foreign.md", text.encode())}
        (await client.call("POST", f"/knowledge-bases/{base}/documents", files=upload)).raise_for_status()
    now = app.clock.now()
    await app.store.directory.add_user(User("user_bob", "Bob", Role.MEMBER, now))
    await app.store.directory.add_group(Group("group_staff", "Staff", now))
    await app.store.directory.add_member("group_staff", "user_bob", LOCAL_USER, now)
    await app.store.access.set_grant(OWNER, base, Subject("user", "user_bob"), GrantLevel.RESTRICTED, now)
    await app.store.access.set_grant(OWNER, base, Subject("group", "group_staff"), GrantLevel.FULL, now)
    line = await line_of(app, OWNER)
    await replacement_of(app, OWNER, line)
    conversation = await client.conversation()
    await client.send(conversation, "hello", knowledge_base_ids=[base])
    async with asyncio.timeout(120):
        while any(one["state"] not in ("ready", "failed") for one in await _documents(client, base)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        while not await found(client, "hello"):  # noqa: ASYNC110 (what was said is indexed in the background)
            await asyncio.sleep(0.1)


async def _documents(client: ServerClient, base: str) -> Sequence[Object]:
    return list((await client.get(f"/knowledge-bases/{base}/documents?limit=100"))["data"])


async def found(client: ServerClient, words: str) -> list[Object]:
    """What a search of all conversations gives."""
    return list((await client.http.get("/api/v1/sessions/search", params={"q": words})).json()["data"])


@dataclass
class Seen:
    """What a client sees of a deployment."""

    trees: dict[str, Object] = field(default_factory=dict)
    bodies: dict[str, list[bytes]] = field(default_factory=dict)
    files: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    documents: list[Object] = field(default_factory=list)
    searches: dict[str, list[Object]] = field(default_factory=dict)
    passages: dict[str, list[Object]] = field(default_factory=dict)
    rest: dict[str, Object] = field(default_factory=dict)


async def seen(client: ServerClient) -> Seen:
    """Look at everything."""
    all = Seen()
    for conversation in (await client.get("/conversations?limit=100"))["data"]:
        id = conversation["id"]
        all.trees[id] = await client.get(f"/conversations/{id}/tree?limit=100&order=asc")
        all.bodies[id] = await bodies_of(client, id)
        all.rest[id] = {
            name: await client.get(f"/conversations/{id}/{name}") for name in ("sessions", "commands", "decisions")
        }
    for file in (await client.get("/files?limit=100"))["data"]:
        content = await client.call("GET", f"/files/{file['id']}/content")
        all.files[file["id"]] = content.content, (await client.get(f"/files/{file['id']}/text"))["text"]
    for base in (await client.get("/knowledge-bases"))["data"]:
        all.documents += await _documents(client, base["id"])
        all.rest[base["id"]] = await client.get(f"/knowledge-bases/{base['id']}/grants")
        for words in SEARCHED:
            asked = {"query": words, "knowledge_base_ids": [base["id"]]}
            all.passages[words] = (await client.post("/knowledge-bases/search", asked))["data"]
    for words in SEARCHED:
        all.searches[words] = await found(client, words)
    for name in ("agents", "projects", "system-prompts", "lines", "me"):
        all.rest[name] = await client.get(f"/{name}")
    return all


def filled_folder(folder: Path, *, people: int = 2, deeds: int = 8, documents: int = 6) -> Seen:
    """Fill a data folder, and close it. Returns what is seen of it."""

    async def fill() -> Seen:
        async with carrier(folder, **TIGHT) as (app, client):
            await furnish(app, client, people=people, deeds=deeds, documents=documents)
            return await seen(client)

    return asyncio.run(fill())
