"""Titles of conversations: written by a model once, in the background. A user's own title is never replaced."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from importlib.resources import files

import structlog

from lamella.agent.request import RequestIdentity, side_prompt, side_request
from lamella.agent.side import SideAnswer
from lamella.background import Retry
from lamella.core.errors import CallerError, ConfigurationError, NotFound
from lamella.core.handover import pending
from lamella.core.knowledge import bases_of_steps
from lamella.core.messages import StopReason, TurnStatus
from lamella.core.models import OFF
from lamella.core.ports import OpenModel
from lamella.core.prompt import Sampling
from lamella.core.records import Caller, Job, NewJob, TurnRecord
from lamella.core.tokens import Usage
from lamella.sessions.summariser import SummaryModelSource
from lamella.sessions.summary_input import framed
from lamella.sessions.summary_models import answer_within
from lamella.turns.loader import TurnContext, TurnLoader
from lamella.turns.services import Services
from lamella.turns.turn import Finished

log = structlog.get_logger()

TITLE = "title"
"""The kind of the job, and the purpose of its request."""

LONGEST = 80
"""Maximum characters of a title; a longer answer is rejected."""

SHOWN = 2_000
"""Characters of the message and of the answer that the title's model reads."""

MAX_OUTPUT = 1_024
"""Tokens of the answer: some models think before a few words."""

SECONDS = 60.0
"""The time limit of a title in seconds."""

PROMPT = files("lamella.sessions").joinpath("prompts", "title.md").read_text("utf-8").strip()

_EXPECTED = Usage(input=500, output=15)
"""The approximate usage of a title, to compare two models."""

_LABEL = re.compile(r"^(?:title|titel|titre|título)\s*:\s*", re.IGNORECASE)
_QUOTED = re.compile(r"^([\"'“”„«»‘’*_`]+)(.+?)[\"'“”„«»‘’*_`]+$")


@dataclass(frozen=True, slots=True)
class NoTitle:
    """The answer is not a title, and why."""

    why: str


def titled(answer: SideAnswer) -> str | NoTitle:
    """The title in an answer: its first meaningful line, without markup; or why there is none."""
    if answer.called_tools:
        return NoTitle("the model called a tool instead of answering")
    if answer.stop_reason is not StopReason.END_TURN:
        return NoTitle(f"the title was cut off ({answer.stop_reason.value if answer.stop_reason else 'broken'})")
    title = next((line for line in map(_bare, answer.text.splitlines()) if line), "")
    if not title:
        return NoTitle("the title is empty")
    if len(title) > LONGEST:
        return NoTitle(f"the title has {len(title)} characters, more than {LONGEST}")
    return title


def _bare(line: str) -> str:
    """A line without markup around a title; empty if it only announces one."""
    line = "".join(" " if unicodedata.category(one).startswith("C") and one != "\u200d" else one for one in line)
    line = " ".join(line.split()).lstrip("#>- ")
    line = _LABEL.sub("", _unquoted(line))
    line = _unquoted(line).removesuffix(".").strip()
    return "" if line.endswith(":") or not any(one.isalnum() for one in line) else line


def _unquoted(line: str) -> str:
    match = _QUOTED.match(line)
    return match.group(2).strip() if match else line


class Titles:
    """Writes titles of conversations whose title is their first words; failing leaves those."""

    def __init__(self, loader: TurnLoader, services: Services, summary_model: SummaryModelSource | None) -> None:
        self._loader = loader
        self._services = services
        self._second = summary_model

    def wanted(self, finished: Finished) -> NewJob | None:
        """The job for a conversation after its first answer; None if it needs none, or its caller is to run a tool."""
        turn = finished.turns[-1]
        if pending(turn.steps):
            return None
        if finished.conversation.titled_by not in ("nobody", "words") or turn.status is not TurnStatus.FINISHED:
            return None
        payload = {"turn": turn.ends_with}
        return NewJob(TITLE, finished.conversation.id, "the first answer", self._services.clock.now(), payload)

    async def write(self, job: Job) -> Retry | None:
        """Do a job of `wanted`."""
        store = self._services.store
        try:
            conversation = await store.conversations.conversation(job.caller, job.subject)
            turn = await store.turns.turn(job.caller, str(job.payload.get("turn")))
            begun = turn
            while begun.results and not begun.text and begun.parent.turn_id is not None:
                begun = await store.turns.turn(job.caller, begun.parent.turn_id)
        except NotFound:
            return None
        turn = replace(turn, text=begun.text)
        if conversation.titled_by != "words":
            return None
        try:
            loaded = await self._loader.current(job.caller, conversation.id)
            opened = await self._model(loaded)
        except (CallerError, ConfigurationError) as error:
            log.warning("no title", conversation_id=conversation.id, why=error.message)
            return None
        answer = await self._ask(job.caller, loaded, opened, turn)
        if answer.error is not None:
            log.warning("no title", conversation_id=conversation.id, why=answer.error.message)
            return Retry(answer.error.message)
        title = titled(answer)
        if isinstance(title, NoTitle):
            log.warning("no title", conversation_id=conversation.id, why=title.why)
            return None
        made_from = tuple(sorted(bases_of_steps(turn.run.steps)))
        await store.conversations.title_conversation(job.caller, conversation.id, title, made_from)
        return None

    async def _model(self, loaded: TurnContext) -> OpenModel:
        """The summaries' model if there is one (and if cheaper, where the cheaper one is wanted); else the
        conversation's own.
        """
        main = OpenModel(loaded.run.model, loaded.run.account)
        if self._second is None:
            return main
        second = await self._second.open()
        if self._second.choice == "configured":
            return second
        return min(main, second, key=lambda opened: opened.model.facts.cost(_EXPECTED))

    async def _ask(self, caller: Caller, loaded: TurnContext, opened: OpenModel, turn: TurnRecord) -> SideAnswer:
        """Ask, and record the request like any other; it belongs to the turn that it is about, and to no run."""
        services, model = self._services, opened.model
        facts = model.facts
        output = min(MAX_OUTPUT, facts.max_output)
        excerpt = f"User:\n{turn.text[:SHOWN]}\n\nAnswer:\n{turn.run.answer[:SHOWN]}"
        made_from = bases_of_steps(turn.run.steps)
        prompt = side_prompt(facts.name, PROMPT, framed("conversation", excerpt), Sampling(output, OFF), made_from)
        identity = RequestIdentity(
            services.ids.new("req"), turn.conversation_id, turn.id, 0, TITLE, services.clock.now()
        )
        layout = loaded.setting.layout
        request, stored = side_request(model, prompt, identity, layout, facts.window - output, facts.token_factor)
        await services.store.requests.record_request(caller, stored)
        answer = await answer_within(services.clock, model, request, loaded.run.headers(TITLE, 0), SECONDS, "title")
        await services.store.requests.end_request(caller, answer.end(identity.id, facts.cost(answer.usage)))
        await services.store.sessions.spend(caller, loaded.setting.conversation.session_id, TITLE, answer.usage)
        return answer
