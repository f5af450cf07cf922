"""What the owner's hint gives away: canaries that it names to the main model, and the hint itself in a disguise.

Hints and keywords are told to the main model of a session, so that it asks the right questions. Two measures. *Told*: a
hint or keyword names a canary of the documents, and it stands in the request to the main model. *Echoed*: the main
model repeats a harmless hint in a disguise, and the reader of the streamed answer can undo it.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from structlog.testing import capture_logs

from lamella.app.app import App
from lamella.core.access import BaseContent
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from leaking.disguises import DISGUISES
from leaking.restricted_base import ANN, add, restricted_base, second_model
from leaking.spelling import plain, stands_in
from leaking.world import KINDS, LANGUAGES, Canary, pages, speeches

HINT = "Ask for clauses about the rent of mills, and who repairs the roof of a barn."


@dataclass(slots=True)
class Hints:
    """Canaries that were told of those tried, by kind, and disguises in which the hint was echoed."""

    tried: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    told: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    echoed: list[str] = field(default_factory=list)
    disguises: int = 0


async def play_hints(seed: int, canaries: int, languages: Sequence[str] = LANGUAGES) -> Hints:
    """Name so many canaries in hints, and echo a hint in each disguise."""
    made, chosen = Hints(), Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(capture_logs())
        model = ScriptedModel()
        given = read_settings(
            data=folder,
            restricted_model="second",
            restricted_answers_per_day=0,
            restricted_short_answers_per_day=0,
            titles=False,
            debounce_ms=0,
            knowledge_summaries=False,
        )
        async with served(given, checked=False, models=ScriptedModels(model, second_model())) as (app, client):
            for language in languages:
                documents, known = pages(language)
                first, *others = documents
                base = await restricted_base(app, first.text, "Base", f"{first.title}.md")
                for page in others:
                    await add(app, base, page.text, f"{page.title}.md")
                for canary in chosen.sample(known, min(len(known), canaries // len(languages))):
                    await _tell(app, client, model, base, canary, made)
            base = await restricted_base(app, "The miller pays late for the third barn in every wet year.", "Mills")
            await _echo(app, client, model, base, made)
    return made


async def _tell(app: App, client: ServerClient, model: ScriptedModel, base: str, canary: Canary, made: Hints) -> None:
    form = sorted(canary.forms)[0]
    hint = f"{speeches()[canary.page.language].carriers[0]} {form}."

    def named(content: BaseContent) -> BaseContent:
        return replace(content, hint=hint, keywords=(form,))

    await app.bases.change(ANN, base, named)
    await _said(client, model, base, "Yes.")
    made.tried[canary.kind] += 1
    if stands_in(form, "\n".join(str(block.value) for block in model.requests[-1].blocks)):
        made.told[canary.kind].append(f"{canary.page.language}: {form}")


async def _echo(app: App, client: ServerClient, model: ScriptedModel, base: str, made: Hints) -> None:
    await app.bases.change(ANN, base, lambda content: replace(content, hint=HINT))
    for name, (change, undo) in DISGUISES.items():
        shown = await _said(client, model, base, f"Well: {change(HINT)} So much for that.")
        made.disguises += 1
        if _solid(HINT) in _solid(undo(shown)):
            made.echoed.append(name)


async def _said(client: ServerClient, model: ScriptedModel, base: str, answer: str) -> str:
    """What a user is shown of an answer in a new conversation about the base."""
    model.then(saying(answer))
    packets = await client.send(await client.conversation(), "What is it about?", knowledge_base_ids=[base])
    return "".join(packet["text"] for packet in packets if packet["type"] == "text.delta")


def _solid(text: str) -> str:
    return "".join(one for one in plain(text) if one.isalnum())


NEVER_ECHOED = ("base64", "reversed", "spaced letters", "invisible tags")


def missed_hints(hints: Hints) -> list[str]:
    """The aims that hints missed, in words."""
    told = [
        f"hints that name a canary, {name}: {len(hints.told[kind])} of {hints.tried[kind]} told; aim 0"
        for kind, name in KINDS.items()
        if kind not in "br" and hints.told[kind]
    ]
    echoed = [name for name in NEVER_ECHOED if name in hints.echoed]
    return [*told, f"hints echoed in a disguise: {', '.join(echoed)}"] if echoed else told


def rows(hints: Hints) -> list[tuple[str, ...]]:
    """A table of what hints told."""
    head = "hints and keywords that name a canary", "tried", "told", "examples"
    made = [
        (name, str(hints.tried[kind]), str(len(hints.told[kind])), ", ".join(hints.told[kind][:3]))
        for kind, name in KINDS.items()
    ]
    echoed = "hints echoed in a disguise", str(hints.disguises), str(len(hints.echoed)), ", ".join(hints.echoed)
    return [head, *made, echoed]
