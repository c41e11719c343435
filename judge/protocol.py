"""The protocol of judges: a judge yields its questions as data, and an engine answers them.

A judge is a generator that yields rounds of `Ask`s and receives one answer for each: the reply
model it asked for, or a `NoReply`. It does no I/O, so one judge serves dry runs, caches, batch
endpoints and tests alike. A judge that needs no model is a plain function.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.score import Metric, Score

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")


SHORTEST_ID: Final = 6
"""Digits of a reply id in all but a few prompts: small models cannot repeat a long one."""


def texts_digest(texts: Sequence[str], more: bytes = b"") -> str:
    """The SHA-256 over texts joined by NUL, and `more` after them, as 64 hex digits."""
    first, *others = texts
    running = _begun_hash(first).copy()  # the first text is equal over a run, and long
    running.update("".join(f"\x00{text}" for text in others).encode("utf-8", "surrogatepass"))
    running.update(more)
    return running.hexdigest()


@lru_cache(maxsize=64)
def _begun_hash(text: str) -> hashlib._Hash:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass"))


def unused_id(texts: Sequence[str], digest: str) -> str:
    """At least 6 decimal digits that none of the texts contains; they follow from the texts.

    `digest` is the `texts_digest` of the texts.
    """
    digits, more = SHORTEST_ID, b""
    while any((drawn := str(int(digest, 16))[-digits:]) in text for text in texts):
        # A text can hold every number of 6 digits, as an attack: each further draw is a digit longer.
        digits, more = digits + 1, more + b"again"
        digest = texts_digest(texts, more)
    return drawn


@dataclass(frozen=True, slots=True)
class Prompt:
    """The two messages of an ask."""

    system: str  # role, rules and rubric: equal over a run, so that providers can cache it
    user: str  # the case, as data sections


@dataclass(frozen=True)
class Ask(Generic[T]):
    """One question to a model, whose answer must fit the pydantic model `reply`.

    A reply with doubts is asked for once more; the second reply counts even if doubts remain.
    """

    prompt: Prompt
    reply: type[T]
    evidence: object = None  # facts of the prompt as values; the offline judge reads these
    doubts: Callable[[T], str | None] | None = None  # what a fitting reply lacks; `None`: nothing
    # What the offline judge may reply in place of `reply`: a model could be talked into a skip.
    offline_reply: type[T] | None = None
    # The case that is asked about; the engine adds it. `None`: every reply must repeat its id.
    case: Case | None = field(default=None, compare=False, repr=False)

    @cached_property
    def prompt_hash(self) -> str:
        """The first 32 hex digits of the SHA-256 over both messages and the reply schema."""
        return self._digest[:32]

    @cached_property
    def reply_id(self) -> str:
        """The id that the model must repeat, and that closes the data of the prompt."""
        # No text of the prompt contains it: a delimiter that lacks it is forged, an object an echo.
        # It follows from the prompt, so it stays the same for replies that are cached.
        return unused_id(self._texts, self._digest)

    def repeated_id(self, reply_text: str) -> str:
        """The id that a reply has to repeat which this version, or an earlier one, asked for."""
        digest = self.prompt_hash  # earlier ids were its last 12 digits, and all of it as a number
        earlier = (digest[-12:], f"{int(digest, 16):039d}")
        return next((each for each in earlier if each in reply_text), self.reply_id)

    def about(self, case: Case) -> Ask[T]:
        """The same ask with the case that it is about; what was derived from its prompt is kept."""
        ask = copy.copy(self)
        ask.__dict__["case"] = case  # no hash depends on the case
        return ask

    def read_offline(self) -> Ask[T]:
        """The ask whose reply is read as that of the offline judge."""
        return replace(self, reply=self.offline_reply) if self.offline_reply else self

    @cached_property
    def _digest(self) -> str:
        return texts_digest(self._texts)

    @property
    def _texts(self) -> tuple[str, str, str]:
        return self.prompt.system, self.prompt.user, _schema_text(self.reply)


@lru_cache(maxsize=256)  # few reply models, many asks
def _schema_text(reply: type[BaseModel]) -> str:
    return json.dumps(reply.model_json_schema(), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Query:
    """SQL on a private copy of a case's database; answered by a `QueryResult`, or a `NoReply`."""

    database: str  # path of a SQLite or DuckDB file
    statements: tuple[str, ...]  # run in order, on the same copy
    read_only: bool = False  # statements that write fail, also where a run lets them write


@dataclass(frozen=True, slots=True)
class FileQuery:
    """A file of a case's snapshot; answered by a `FileText`, or a `NoReply` without a snapshot."""

    folder: str  # path of the snapshot's folder
    path: str = ""  # of the file in the folder; that of a folder, or none, lists the files in it


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, or the names of the files of a folder, one a line."""

    path: str
    text: str = ""  # up to the limit of the sandbox
    size_bytes: int = 0  # of the whole file
    truncated: bool = False  # there was more
    error: str | None = None  # why there is no text; `None`: there is


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The results of the statements of a query."""

    tables: tuple[SqlTable, ...]  # one for each statement, in order


@dataclass(frozen=True, slots=True)
class SqlTable:
    """The result of one statement."""

    statement: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()  # up to the row limit of the sandbox
    row_count: int = 0  # length of `rows`
    truncated: bool = False  # there were more rows
    ordered: bool = False  # it has an ORDER BY, so the order of its rows counts
    error: str | None = None  # why it failed; `None`: it ran
    digests: tuple[str, ...] = ()
    """Where `truncated`, perhaps two hashes of the bag of all rows: with the columns as selected,
    and with the columns in any order."""


class SqlRunner(Protocol):
    """Answers what judges look up: SQL, and files of snapshots; the engine is given one."""

    async def look_up(self, query: Query | FileQuery) -> QueryResult | FileText | NoReply:
        """Answer a query; the error of a statement or a file stands in the answer, not raised."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """The failure of a model or a query, as a value."""

    code: str  # e.g. `timeout`; see `assizes.judge.engine.faults`
    reason: str
    raw: str = ""  # the text of an unusable reply; empty: none came


NO_SQL_RUNNER: Final = NoReply("no_sql_runner", "no statements are run on a database here")
"""The answer to every query where the engine has no `SqlRunner`."""


class JudgeFailed(Exception):
    """Raised by `ask` inside a judge when no reply came; `Hearing` turns it into failed scores."""

    def __init__(self, no_reply: NoReply) -> None:
        super().__init__(no_reply.reason)
        self.no_reply = no_reply


Question = Ask[Any] | Query | FileQuery

Steps = Generator[Sequence[Question], Sequence[Any], R]
"""The generator of a judge: it yields rounds of questions, receives answers and returns an R."""


@runtime_checkable
class Judge(Protocol):
    """What every judge has: a name, a version, the metrics it promises, and scores for a case."""

    @property
    def name(self) -> str:
        """The name of the judge in rows, unique within a run."""

    @property
    def version(self) -> str:
        """The version of the judge, which changes when its own rules change."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """The metrics for which every case gets a score, be it scored, skipped or failed."""

    def missing(self, case: Case) -> str | None:
        """Why the judge does not apply to this case; `None` when it applies."""

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """The scores, or a generator that asks questions and returns the scores."""


def ask_each(asks: Sequence[Ask[T]]) -> Steps[list[T | NoReply]]:
    """Ask one round of questions together; a failed question gives a `NoReply` in its place."""
    return list((yield asks))  # the driver sends the answers to this `yield`


def ask(
    prompt: Prompt,
    reply: type[T],
    evidence: object = None,
    doubts: Callable[[T], str | None] | None = None,
    offline_reply: type[T] | None = None,
) -> Steps[T]:
    """Ask one question.

    Raises:
        JudgeFailed: when no usable reply came.
    """
    answer: T | NoReply
    (answer,) = yield [Ask(prompt, reply, evidence, doubts, offline_reply)]
    if isinstance(answer, NoReply):
        raise JudgeFailed(answer)
    return answer


def look_up(query: Query) -> Steps[QueryResult | NoReply]:
    """Ask one query; the engine's `SqlRunner` answers it."""
    answer: QueryResult | NoReply
    (answer,) = yield [query]
    return answer


def look_up_each(
    queries: Sequence[Query | FileQuery],
) -> Steps[list[QueryResult | FileText | NoReply]]:
    """Ask one round of queries together; one that fails gives a `NoReply` in its place."""
    return list((yield queries))


def together(lines: Sequence[Steps[R]]) -> Steps[list[R | NoReply]]:
    """Advance several generators round by round; one that fails gives a `NoReply` in its place."""
    results: list[Any] = [None] * len(lines)
    waiting: dict[int, Sequence[Question]] = {}  # index of a generator -> its pending round

    def advance(index: int, answers: Sequence[Any] | None) -> None:
        try:
            waiting[index] = lines[index].send(answers)  # type: ignore[arg-type]  # None starts it
        except StopIteration as done:
            results[index] = done.value
        except JudgeFailed as failed:
            results[index] = failed.no_reply  # the others continue

    for index in range(len(lines)):
        advance(index, None)
    while waiting:
        asked, waiting = waiting, {}  # `advance` adds the next rounds
        answers = iter((yield [question for asks in asked.values() for question in asks]))
        for index, asks in asked.items():
            advance(index, [next(answers) for _ in asks])
    return results
