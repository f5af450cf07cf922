"""From a question and protected passages to a safe summary: asked, checked, guarded; in any doubt a refusal.

passages ──mask──▶ second model ──▶ reply ──schema, confidence──▶ summary ──release──▶ what may leave
                        ▲                                             │
                        └──────── once more, without its blocked words ┘

Nothing is stored. Logs name the passages that were shown and hold what left, and no word of what lies between. The port
to the second model is here too: no reply of it is passed on unread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Protocol

import structlog

from lamella.core.access import FormField, RestrictedLevel
from lamella.core.errors import LamellaError
from lamella.core.tokens import Usage
from lamella.guard.lexicon import FEWEST_WORDS, Lexicon, language_of
from lamella.guard.masking import visible_words, without_figures
from lamella.guard.release import (
    NOTHING,
    Checked,
    Release,
    ReleasedWords,
    release,
    released_choices,
    released_existence,
    told_by,
)
from lamella.guard.terms import ProtectedTerms, merged
from lamella.knowledge.restricted.material import (
    FORM,
    LONGEST_QUESTION,
    PROMPT,
    REWRITE,
    Chunk,
    Material,
    masked,
    question_json,
    shown_in_logs,
    to_rewrite,
    version_of,
)
from lamella.knowledge.restricted.summary import COUNTED, Reason, Reply, SafeSummary, picked_of, reply_of, rewritten_of


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a second model said. `whole`: it came to its own end, and called nothing."""

    text: str
    whole: bool
    usage: Usage = field(default_factory=Usage)


class MaskedModel(Protocol):
    """A model of the deployment's choice; no caller chooses it (`app`)."""

    name: str

    async def ask(self, prompt: str, material: str) -> ModelReply:
        """Its answer. Raises a `LamellaError` when it can't be asked; what that error says may hold protected text and
        is shown to nobody.

        It keeps and logs nothing of what it is asked.
        """
        ...


log = structlog.get_logger()

KEPT = 512
"""Replies that are kept in memory."""

FALLBACK = "en"
"""The language that a question of a few unknown words is read in."""

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
    """What somebody asks of a restricted base. None of its words is freed by being asked.

    `told` are the content words that the reader got of a passage before, by the id of its chunk. `form` are the fields
    that are filled in instead of a summary, at any level but `summary`; `contact` says whom to ask.
    """

    user_id: str
    base_id: str
    text: str
    told: Mapping[str, frozenset[str]] = field(default_factory=dict)
    level: RestrictedLevel = RestrictedLevel.SUMMARY
    form: tuple[FormField, ...] = ()
    contact: str = ""

    @property
    def is_binary(self) -> bool:
        """Whether each answer is a yes or a no."""
        return self.level is not RestrictedLevel.SUMMARY and prod(len(one.choices) for one in self.form) <= 2


EXISTENCE = (FormField("Do the passages say something about the question?", ("no", "yes")),)
"""The form of bases that tell whether something is there."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A safe summary, and what only the owner of the base is told of how it came about.

    `removed` names the reasons for which `sentences` of what the second model `said` were cut.
    """

    safe: SafeSummary
    chunks: int = 0
    said: str = field(default="", repr=False)
    confidence: float | None = None
    removed: tuple[str, ...] = ()
    sentences: tuple[Checked, ...] = field(default=(), repr=False)
    told: Mapping[str, ReleasedWords] = field(default_factory=dict, repr=False)
    """What leaves of which passage, by the id of its chunk."""

    short: bool = False
    cached: bool = False
    model: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def counted(self) -> bool:
        """Whether it counts as an answer of the day: the second model was asked, and its reply tells something."""
        reason = self.safe.reason
        return bool(self.model) and (reason in COUNTED or reason is Reason.DAILY_LIMIT)


@dataclass(frozen=True, slots=True)
class AnswerDeadline:
    """What the questions of one search share: the moment (of the event loop) by which all have to be answered, and
    the places of those that are asked at a time.
    """

    until: float
    places: asyncio.Semaphore


@dataclass(frozen=True, slots=True)
class _Asked:
    """A reply, or why there is none; in `rewritten` the sentences that were said anew, by their place in the reply."""

    reply: Reply | Reason
    rewritten: Mapping[int, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    cached: bool = False


_Key = tuple[str, str, str, str, str, tuple[FormField, ...]]
"""User, base, question, the passages as they are shown now, the model, and the form."""


class SafeAnswers:
    """Makes safe summaries; replies are kept in memory for the same user, question and passages.

    `lexicons` gives the words of each language, and may take seconds; None if they are not installed.
    """

    def __init__(
        self,
        model: MaskedModel | None,
        settings: SafeSettings | None = None,
        lexicons: Callable[[], Mapping[str, Lexicon]] | None = None,
    ) -> None:
        self._model = model
        self._settings = settings or SafeSettings()
        self._lexicons = lexicons
        self._kept: OrderedDict[_Key, _Asked] = OrderedDict()
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read the word lists if there is a second model, so that no question waits for them."""
        if self._model is not None:
            self._reading = asyncio.create_task(self.ready())

    async def close(self) -> None:
        """Wait until the word lists are read: a thread can't be stopped."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    @property
    def seconds(self) -> float:
        """How long an answer may take."""
        return self._settings.seconds

    @property
    def missing(self) -> Reason | None:
        """What a server lacks that nothing can be said without: the word lists, or else a second model."""
        if self._lexicons is None:
            return Reason.NO_WORD_LISTS
        return Reason.NO_MODEL if self._model is None else None

    async def ready(self) -> None:
        """Read the word lists, if they are installed: seconds the first time, which no question should wait for."""
        if self._lexicons is not None:
            await asyncio.to_thread(self._lexicons)

    async def searched(self, text: str, terms: Mapping[str, ProtectedTerms]) -> str:
        """The words of a question that passages are looked for with: those that a masked passage could hold.

        With others, which passage comes first would tell whether a guessed name stands in the base.
        """
        if self._lexicons is None:
            return text
        return await asyncio.to_thread(_visible, text, terms, await asyncio.to_thread(self._lexicons))

    def patience(self) -> AnswerDeadline:
        """How long the questions of one search may take together, from now on."""
        until = asyncio.get_running_loop().time() + self._settings.seconds
        return AnswerDeadline(until, asyncio.Semaphore(self._settings.at_once))

    async def answer(
        self,
        question: Question,
        chunks: Sequence[Chunk],
        terms: Mapping[str, ProtectedTerms],
        deadline: AnswerDeadline | None = None,
    ) -> Answered:
        """What may be said of the chunks; every failure on the way is a refusal with its reason.

        `terms` are the names of the base, by language. `deadline` is that of the search that the question belongs to,
        None for a search of its own.
        """
        name = self._model.name if self._model is not None else ""
        lines = log.bind(knowledge_base_id=question.base_id, model=name)
        lines.info("Starting safe summary", chunks=shown_in_logs(chunks))
        answered = await self._answer(question, chunks, terms, deadline or self.patience())
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

    async def _answer(
        self, question: Question, chunks: Sequence[Chunk], terms: Mapping[str, ProtectedTerms], deadline: AnswerDeadline
    ) -> Answered:
        if self._model is None:
            return Answered(SafeSummary(Reason.NO_MODEL), len(chunks))
        if self._lexicons is None:
            return Answered(SafeSummary(Reason.NO_WORD_LISTS), len(chunks))
        lexicons = await asyncio.to_thread(self._lexicons)
        if _is_foreign(question.text, lexicons):
            return Answered(SafeSummary(Reason.LANGUAGE), len(chunks))
        material = await asyncio.to_thread(masked, chunks, terms, lexicons)
        answering = _Answering(self._model, question, chunks, material, lexicons, deadline, self._settings)
        asked = await self._asked(answering)
        safe, made = await asyncio.to_thread(answering.released, asked)
        reply = asked.reply if isinstance(asked.reply, Reply) else None
        if self._settings.logs_requests and not asked.cached:
            said = {"decision": safe.decision, "reason": safe.reason.value, "text": safe.text}
            log.info("LLM_RESPONSE", purpose="safe_summary", model=self._model.name, **said)
        return Answered(
            safe,
            len(chunks),
            said=reply.summary if reply is not None else "",
            confidence=reply.confidence if reply is not None else None,
            removed=made.cuts,
            sentences=made.sentences,
            told={chunks[number].id: told for number, told in told_by(made, material.shown).items()},
            short=made.is_short or (question.is_binary and bool(reply)),
            cached=asked.cached,
            model=self._model.name,
            usage=asked.usage,
        )

    async def _asked(self, answering: _Answering) -> _Asked:
        """The reply to this question about these chunks: kept, or asked for."""
        key = answering.key
        if key in self._kept:
            self._kept.move_to_end(key)
            return replace(self._kept[key], usage=Usage(), cached=True)
        asked = await answering.ask()
        if isinstance(asked.reply, Reply):
            self._kept[key] = asked
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return asked


def _visible(text: str, terms: Mapping[str, ProtectedTerms], lexicons: Mapping[str, Lexicon]) -> str:
    lexicon = lexicons[language_of(text, lexicons) or FALLBACK]
    return visible_words(text, lexicon, merged(terms.values()))


def _is_foreign(text: str, lexicons: Mapping[str, Lexicon]) -> bool:
    """Whether a question is long enough to tell its language, and it is none of the lexicons'."""
    return len(text.split()) >= FEWEST_WORDS and not language_of(text, lexicons)


_NOT_THERE = SafeSummary(Reason.NOT_IN_DOCUMENTS)


@dataclass(frozen=True, slots=True)
class _Answering:
    """One question on its way through the second model."""

    model: MaskedModel
    question: Question
    chunks: Sequence[Chunk]
    material: Material
    lexicons: Mapping[str, Lexicon]
    patience: AnswerDeadline
    settings: SafeSettings

    @property
    def key(self) -> _Key:
        """What a reply is kept for."""
        asked = self.question
        return asked.user_id, asked.base_id, asked.text, version_of(self.material.passages), self.model.name, asked.form

    async def ask(self) -> _Asked:
        """The second model's reply, with the sentences that it said anew; or why there is none."""
        try:
            async with asyncio.timeout_at(self.patience.until), self.patience.places:
                return await self._ask()
        except TimeoutError:
            return _Asked(Reason.TIMED_OUT)
        except LamellaError as error:
            log.warning("the second model can't be asked", model=self.model.name, error=type(error).__name__)
            return _Asked(Reason.MODEL_FAILED)

    async def _ask(self) -> _Asked:
        text = self.question.text[:LONGEST_QUESTION]
        shown = without_figures(text, self.lexicons, language_of(text, self.lexicons))
        if self.question.level is not RestrictedLevel.SUMMARY:
            return await self._filled_in(shown)
        self._log(PROMPT, question=shown, passages=shown_in_logs(self.chunks))
        heard = await self.model.ask(PROMPT, question_json(shown, self.material.passages))
        reply = reply_of(heard.text) if heard.whole else None
        if reply is None:
            return _Asked(Reason.BAD_OUTPUT, usage=heard.usage)
        if not reply.summary or reply.confidence < self.settings.confidence:
            return _Asked(reply, usage=heard.usage)
        made = await asyncio.to_thread(self._release, reply.summary)
        places = [at for at, one in enumerate(made.sentences) if one in made.rewritable]
        if not places:
            return _Asked(reply, usage=heard.usage)
        anew, usage = await self._rewritten([made.sentences[at] for at in places])
        return _Asked(reply, dict(zip(places, anew, strict=False)), heard.usage + usage)

    async def _filled_in(self, shown: str) -> _Asked:
        form = self.question.form
        self._log(FORM, question=shown, passages=shown_in_logs(self.chunks))
        heard = await self.model.ask(FORM, question_json(shown, self.material.passages, form))
        reply = picked_of(heard.text, form) if heard.whole else None
        return _Asked(reply or Reason.BAD_OUTPUT, usage=heard.usage)

    async def _rewritten(self, sentences: Sequence[Checked]) -> tuple[tuple[str, ...], Usage]:
        """The sentences in other words; none if the second model does not give them: the rest leaves without them."""
        self._log(REWRITE, sentences=len(sentences))
        try:
            heard = await self.model.ask(REWRITE, to_rewrite(sentences))
        except LamellaError as error:
            log.warning("sentences are not rewritten", model=self.model.name, error=type(error).__name__)
            return (), Usage()
        return (rewritten_of(heard.text, len(sentences)) if heard.whole else ()), heard.usage

    def _log(self, system: str, **shown: object) -> None:
        if self.settings.logs_requests:
            log.info("LLM_REQUEST", purpose="safe_summary", model=self.model.name, system=system, **shown)

    def released(self, outcome: _Asked) -> tuple[SafeSummary, Release]:
        """What of a reply may leave, and its sentences."""
        reply = outcome.reply
        if isinstance(reply, Reason):
            return SafeSummary(reply), Release(NOTHING)
        if reply.picks:
            return self._chosen(reply), Release(NOTHING)
        if not reply.summary:
            return SafeSummary(reply.reason), Release(NOTHING)
        if reply.confidence < self.settings.confidence:
            return SafeSummary(Reason.LOW_CONFIDENCE), Release(NOTHING)
        code = language_of(reply.summary, self.lexicons)
        if not code:
            return SafeSummary(Reason.LANGUAGE), Release(NOTHING)
        made = self._release(reply.summary)
        if outcome.rewritten:
            said = [outcome.rewritten.get(at) or one.said for at, one in enumerate(made.sentences)]
            made = self._release("\n".join(said))
        if not made.released:
            return SafeSummary(Reason.GUARDED), made
        return SafeSummary(reply.reason, made.released), made

    def _chosen(self, reply: Reply) -> SafeSummary:
        """The owner's words for what the second model picked."""
        asked = self.question
        if reply.confidence < self.settings.confidence:
            return SafeSummary(Reason.LOW_CONFIDENCE)
        if asked.level is RestrictedLevel.EXISTENCE:
            if reply.picks != (1,):
                return _NOT_THERE
            texts = (asked.text, *(chunk.text for chunk in self.chunks[:1]))
            code = next((code for text in texts if (code := language_of(text, self.lexicons))), FALLBACK)
            return SafeSummary(Reason.ANSWERED, released_existence(asked.contact, self.lexicons[code]))
        picked = [(one.name, one.choices[pick]) for one, pick in zip(asked.form, reply.picks, strict=True)]
        return SafeSummary(Reason.ANSWERED, released_choices(picked))

    def _release(self, summary: str) -> Release:
        lexicon = self.lexicons.get(language_of(summary, self.lexicons))
        if lexicon is None:
            return Release(NOTHING)
        before = [self.question.told.get(chunk.id, frozenset()) for chunk in self.chunks]
        return release(summary, lexicon, self.material.terms, self.material.shown, before)
