"""How a judge asks: questions are data, someone else answers them.

A judge is a generator that yields rounds of `Ask`s and receives one answer for each: the reply
model it asked for, or a `NoReply`. It does no I/O, so one judge serves sync and async drivers, dry
runs, caches, batch endpoints and tests alike. A judge that needs no model is a plain function.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.score import Metric, Score

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")


@lru_cache(maxsize=256)
def _schema_text(reply: type[BaseModel]) -> str:
    return json.dumps(reply.model_json_schema(), sort_keys=True)


def unused_id(text: str) -> str:
    """39 decimal digits drawn from a text, which does not hold them; drawn anew where it does."""
    data = text.encode("utf-8", "surrogatepass")
    draws = (hashlib.sha256(data + b"again" * times).hexdigest() for times in itertools.count())
    return next(
        candidate
        for candidate in (f"{int(drawn[:32], 16):039d}" for drawn in draws)
        if candidate not in text
    )


@dataclass(frozen=True, slots=True)
class Prompt:
    """Two messages: `system` is stable over a run (providers cache it), `user` holds the case."""

    system: str
    user: str


@dataclass(frozen=True)
class Ask(Generic[T]):
    """One question to a model.

    Args:
        prompt: what a language model reads.
        reply: the pydantic model the answer must fit.
        evidence: the same facts as a typed value; the offline judge answers from it.
        doubts: looks at a fitting reply and says what is still missing, or null. A reply with
            doubts is asked for once more; the second one counts whatever the doubts.
    """

    prompt: Prompt
    reply: type[T]
    evidence: object = None
    doubts: Callable[[T], str | None] | None = None

    @cached_property
    def prompt_hash(self) -> str:
        """SHA-256 (first 32 hex digits) over both messages and the reply schema."""
        return hashlib.sha256(self._text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @cached_property
    def reply_id(self) -> str:
        """39 decimal digits (128 bits) that close the data of the prompt and that a model is told to
        repeat in its reply.

        They depend on all of the prompt, so that whoever wrote a part of it could not know them: a
        delimiter without them is a fake, an object without them an echo of the transcript. The same
        ask has the same ones, so that a kept reply fits.
        """
        return unused_id(self._text)

    @cached_property
    def _text(self) -> str:
        return "\x00".join((self.prompt.system, self.prompt.user, _schema_text(self.reply)))


@dataclass(frozen=True, slots=True)
class Query:
    """One question to a database: read-only statements on a copy of a case's fixture.

    The answer is a `QueryResult`, or a `NoReply` where the fixture cannot be had.
    """

    database: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What the statements returned: one `Table` each, in order."""

    tables: tuple[SqlTable, ...]


@dataclass(frozen=True, slots=True)
class SqlTable:
    """The result of one statement.

    `error` is null when it ran. `rows` may be cut at the sandbox's cap: `row_count` is what there
    were up to that cap, `truncated` says whether there were more. `ordered`: the statement orders.
    """

    statement: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    row_count: int = 0
    truncated: bool = False
    ordered: bool = False
    error: str | None = None


class SqlRunner(Protocol):
    """Looks things up for a judge; the engine puts its queries to one."""

    async def look_up(self, query: Query) -> QueryResult | NoReply:
        """Run the statements. Faults of a statement are in its table, never raised."""


@dataclass(frozen=True, slots=True)
class NoReply:
    """A model's failure as a value: a code such as `timeout` or `invalid_reply`, a sentence, and
    the raw text where one came.
    """

    code: str
    reason: str
    raw: str = ""


NO_SQL_RUNNER: Final = NoReply("no_clerk", "there is nobody here to run statements on a database")
"""The answer to a query where nobody looks things up."""


class JudgeFailed(Exception):
    """Raised by `ask` inside a judge when no reply came; `Hearing` turns it into failed scores."""

    def __init__(self, no_reply: NoReply) -> None:
        """Keep the failure whole."""
        super().__init__(no_reply.reason)
        self.no_reply = no_reply


Question = Ask[Any] | Query

Steps = Generator[Sequence[Question], Sequence[Any], R]
"""What a judge that asks returns: rounds of questions out, answers in, a result at the end."""


@runtime_checkable
class Judge(Protocol):
    """Finds scores for a case."""

    @property
    def name(self) -> str:
        """The name rows carry; unique in a run."""

    @property
    def version(self) -> str:
        """Changes when the judge's own rules change."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """What it promises to score, even when it cannot."""

    def missing(self, case: Case) -> str | None:
        """Why it does not apply to this case; null when it does."""

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """The findings, or the questions that lead to them."""


def ask_each(asks: Sequence[Ask[T]]) -> Steps[list[T | NoReply]]:
    """One round of questions, answered together; failures come back as values."""
    return list((yield asks))


def ask(
    prompt: Prompt,
    reply: type[T],
    evidence: object = None,
    doubts: Callable[[T], str | None] | None = None,
) -> Steps[T]:
    """One question.

    Raises:
        JudgeFailed: when no reply came.
    """
    (answer,) = yield from ask_each([Ask(prompt, reply, evidence, doubts)])
    if isinstance(answer, NoReply):
        raise JudgeFailed(answer)
    return answer


def look_up(query: Query) -> Steps[QueryResult | NoReply]:
    """One query, answered by the clerk."""
    (answer,) = yield [query]
    return answer  # type: ignore[no-any-return]  # the clerk answers a query with one of the two


def together(lines: Sequence[Steps[R]]) -> Steps[list[R | NoReply]]:
    """Advances several lines of questioning round by round, so that each round is answered at
    once. A line that fails leaves its `NoReply` in its place; the others go on.
    """
    results: list[Any] = [None] * len(lines)
    waiting: dict[int, Sequence[Question]] = {}

    def advance(index: int, answers: Sequence[Any] | None) -> None:
        try:
            waiting[index] = lines[index].send(answers)  # type: ignore[arg-type]  # None starts it
        except StopIteration as done:
            results[index] = done.value
        except JudgeFailed as failed:
            results[index] = failed.no_reply

    for index in range(len(lines)):
        advance(index, None)
    while waiting:
        asked, waiting = waiting, {}
        answers = iter((yield [question for asks in asked.values() for question in asks]))
        for index, asks in asked.items():
            advance(index, [next(answers) for _ in asks])
    return results
