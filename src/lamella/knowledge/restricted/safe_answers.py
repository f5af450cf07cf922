"""From a question and protected passages to a safe summary: asked, checked, guarded; in any doubt a refusal.

passages ──second model──▶ reply ──schema, confidence──▶ summary ──guard──▶ what may leave

Nothing is stored. Logs name the passages that were shown and hold what left, and no word of what lies between. The port
to the second model is here too: no reply of it is passed on unread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from lamella.core.errors import LamellaError
from lamella.core.tokens import Usage
from lamella.guard.guard import Guard, GuardVerdict
from lamella.knowledge.restricted.material import PROMPT, Chunk, material, shown_in_logs, version_of
from lamella.knowledge.restricted.summary import Reason, Reply, SafeSummary, reply_of


@dataclass(frozen=True, slots=True)
class Heard:
    """What a second model said. `whole`: it came to its own end, and called nothing."""

    text: str
    whole: bool
    usage: Usage = field(default_factory=Usage)


class SecondModel(Protocol):
    """A model of the deployment's choice; no caller chooses it (`app`)."""

    name: str

    async def ask(self, prompt: str, material: str) -> Heard:
        """Its answer. Raises a `LamellaError` when it can't be asked; what that error says may hold protected text and
        is shown to nobody.

        It keeps and logs nothing of what it is asked.
        """
        ...


log = structlog.get_logger()

KEPT = 512
"""Replies that are kept in memory."""

PREVIEW = 160
"""Characters of a safe summary that are logged."""


@dataclass(frozen=True, slots=True)
class SafeSettings:
    """What a deployment sets: how long the second model may take for all bases of a search, how many of them it is
    asked about at once, how sure it has to be, and whether it is logged.
    """

    seconds: float = 30.0
    at_once: int = 4
    confidence: float = 0.5
    logs_requests: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody asks of a restricted base. `said` is what the user wrote: that may be said again."""

    user_id: str
    base_id: str
    text: str
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """A safe summary, and what only the owner of the base is told of how it came about.

    `removed` names the kinds of protected things that the guard found in what the second model `said`.
    """

    safe: SafeSummary
    chunks: int = 0
    said: str = field(default="", repr=False)
    confidence: float | None = None
    removed: tuple[str, ...] = ()
    cached: bool = False
    model: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class AnswerDeadline:
    """What the questions of one search share: the moment (of the event loop) by which all have to be answered, and
    the places of those that are asked at a time.
    """

    until: float
    places: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class _Asked:
    """A reply, or why there is none."""

    reply: Reply | Reason
    usage: Usage = field(default_factory=Usage)
    cached: bool = False


_Key = tuple[str, str, str, str, str]
"""User, base, question, the passages as they are now, and the model."""


class SafeAnswers:
    """Makes safe summaries; replies are kept in memory for the same user, question and passages."""

    def __init__(self, model: SecondModel | None, settings: SafeSettings | None = None) -> None:
        self._model = model
        self._settings = settings or SafeSettings()
        self._kept: OrderedDict[_Key, Reply] = OrderedDict()

    @property
    def seconds(self) -> float:
        """How long an answer may take."""
        return self._settings.seconds

    def patience(self) -> AnswerDeadline:
        """How long the questions of one search may take together, from now on."""
        until = asyncio.get_running_loop().time() + self._settings.seconds
        return AnswerDeadline(until, asyncio.Semaphore(self._settings.at_once))

    async def answer(
        self, question: Question, chunks: Sequence[Chunk], patience: AnswerDeadline | None = None
    ) -> Answered:
        """What may be said of the chunks: whatever fails on the way is a refusal with its reason.

        `patience` is that of the search that it belongs to, None for a search of its own.
        """
        name = self._model.name if self._model is not None else ""
        lines = log.bind(knowledge_base_id=question.base_id, model=name)
        lines.info("Starting safe summary", chunks=shown_in_logs(chunks))
        answered = await self._answer(question, chunks, patience or self.patience())
        safe = answered.safe
        lines.info(
            "Safe summary completed",
            decision=safe.decision,
            reason=safe.reason.value,
            preview=safe.text[:PREVIEW],
            removed=list(answered.removed),
            cached=answered.cached,
        )
        return answered

    async def _answer(self, question: Question, chunks: Sequence[Chunk], patience: AnswerDeadline) -> Answered:
        if self._model is None:
            return Answered(SafeSummary(Reason.NO_MODEL), len(chunks))
        asked = await self._asked(self._model, question, chunks, patience)
        safe, removed = await self._guarded(asked.reply, question, chunks)
        reply = asked.reply if isinstance(asked.reply, Reply) else None
        if self._settings.logs_requests and not asked.cached:
            said = {"decision": safe.decision, "reason": safe.reason.value, "text": safe.text}
            log.info("LLM_RESPONSE", purpose="safe_summary", model=self._model.name, **said)
        return Answered(
            safe,
            len(chunks),
            said=reply.summary if reply is not None else "",
            confidence=reply.confidence if reply is not None else None,
            removed=removed,
            cached=asked.cached,
            model=self._model.name,
            usage=asked.usage,
        )

    async def _asked(
        self, model: SecondModel, question: Question, chunks: Sequence[Chunk], patience: AnswerDeadline
    ) -> _Asked:
        """The reply to this question about these chunks: kept, or asked for."""
        key = (question.user_id, question.base_id, question.text, version_of(chunks), model.name)
        if key in self._kept:
            self._kept.move_to_end(key)
            return _Asked(self._kept[key], cached=True)
        try:
            async with asyncio.timeout_at(patience.until), patience.places:
                if self._settings.logs_requests:
                    shown = {"question": question.text, "passages": shown_in_logs(chunks)}
                    log.info("LLM_REQUEST", purpose="safe_summary", model=model.name, system=PROMPT, **shown)
                heard = await model.ask(PROMPT, material(question.text, chunks))
        except TimeoutError:
            return _Asked(Reason.TIMED_OUT)
        except LamellaError as error:
            log.warning("the second model can't be asked", model=model.name, error=type(error).__name__)
            return _Asked(Reason.MODEL_FAILED)
        reply = reply_of(heard.text) if heard.whole else None
        if reply is None:
            return _Asked(Reason.BAD_OUTPUT, heard.usage)
        self._kept[key] = reply
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return _Asked(reply, heard.usage)

    async def _guarded(
        self, reply: Reply | Reason, question: Question, chunks: Sequence[Chunk]
    ) -> tuple[SafeSummary, tuple[str, ...]]:
        """What of a reply may leave, and what kinds of things were found in it."""
        if isinstance(reply, Reason):
            return SafeSummary(reply), ()
        if not reply.summary:
            return SafeSummary(reply.reason), ()
        if reply.confidence < self._settings.confidence:
            return SafeSummary(Reason.LOW_CONFIDENCE), ()
        verdict = await asyncio.to_thread(_checked, reply.summary, question.said, chunks)
        removed = tuple(sorted({hit.kind.value for hit in verdict.hits}))
        if verdict.is_refused:
            return SafeSummary(Reason.GUARDED), removed
        return SafeSummary(reply.reason, verdict.text), removed


def _checked(text: str, said: Sequence[str], chunks: Sequence[Chunk]) -> GuardVerdict:
    return Guard([chunk.source for chunk in chunks], said).check(text)
