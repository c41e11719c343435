"""What a test says of conversations: that they pass, or that their scores are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from assizes.deployments.library.inputs import conversation_case
from assizes.deployments.testing.judging import Judging
from assizes.judge.case import Case
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.score import ACCEPTABLE
from assizes.tasks.reports.formatting import clean_line

MAX_REPEATS: Final = 1000
"""The most repeats of one conversation."""

REASON_CHARS: Final = 500
"""The most characters of one reason in a message."""

FAULT_CHARS: Final = 2000
"""The most characters of why nothing could be judged."""

SHOWN: Final = 10
"""The most conversations that a message gives reasons for."""

RecordProperty = Callable[[str, object], None]
Verdict = Mapping[str, Any]
"""A verdict as `LiveRun.judge` returns it."""


@dataclass(frozen=True, slots=True)
class TestDefaults:
    """What the marker of a test sets for it."""

    __test__ = False  # no class of tests

    name: str  # of the test: the id of conversations that have none
    repeats: int = 1
    at_least: int | None = None


class JudgeFixture:
    """The fixture `judge`: takes a conversation, or a function that makes one."""

    def __init__(self, judging: Judging, record: RecordProperty, defaults: TestDefaults) -> None:
        self._judging, self._record, self._defaults = judging, record, defaults

    def __call__(
        self, case: Any, *, repeats: int | None = None, at_least: int | None = None
    ) -> JudgedConversations:
        """Name what is judged; it is judged when something is said of it.

        Args:
            case: a `Case`, a dict in any format, a list of messages, or a list of `Case`s, which
                are repetitions. A function without parameters is called once for each repeat, and
                returns one of the first three.
            repeats: how often the function is called; 1 unless the marker of the test says more.
            at_least: how many of the conversations must pass; by default all of them.
        """
        defaults = self._defaults
        repeats = defaults.repeats if repeats is None else repeats
        at_least = defaults.at_least if at_least is None else at_least
        return JudgedConversations(
            self._judging, self._record, replace(defaults, repeats=repeats, at_least=at_least), case
        )


class JudgedConversations:
    """Conversations of a test; each is judged once, however much is said of it."""

    def __init__(
        self, judging: Judging, record: RecordProperty, wanted: TestDefaults, case: Any
    ) -> None:
        self._judging, self._record, self._wanted, self._case = judging, record, wanted, case
        self._known: list[Verdict] | None = None

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """The verdict of each conversation: `status`, `passed`, `summary`, `scores` and so on."""
        __tracebackhide__ = True
        if self._known is None:
            fault = ""
            try:
                self._known = [self._judging.judge(case) for case in self._cases()]
            except AssizesError as error:
                fault = f"{type(error).__name__}): {clean_line(str(error), FAULT_CHARS)}"
            if self._known is None:  # no pass and no score: the test fails, with one line
                pytest.fail(f"assizes: not judged ({fault}", pytrace=False)
        return self._known

    def passes(
        self,
        metric: str | None = None,
        *,
        judge: str | None = None,
        minimum: float | None = None,
        at_least: int | None = None,
    ) -> JudgedConversations:
        """Fail the test unless enough of the conversations pass.

        Args:
            metric: the metric that must pass; by default the whole verdict of the case.
            judge: the judge of the metric, where several judges have one of this name.
            minimum: the lowest value 0..1 of the metric that passes; by default its own threshold,
                or that it is acceptable (0.6).
            at_least: how many conversations must pass; by default as `judge` was told, or all.
        """
        __tracebackhide__ = True
        verdicts = self.verdicts
        needed = at_least if at_least is not None else self._wanted.at_least
        needed = len(verdicts) if needed is None else needed
        if not 1 <= needed <= len(verdicts):
            pytest.fail(
                f"assizes: at_least={needed}: there are {len(verdicts)} conversations",
                pytrace=False,
            )
        results = [_result(verdict, metric, judge, minimum) for verdict in verdicts]
        self._keep(metric or "passed", results)
        passed = sum(result.passed is True for result in results)
        if passed < needed:
            pytest.fail(_message(metric, results, passed, needed))
        return self

    def records(self, metric: str, *, judge: str | None = None) -> list[float | None]:
        """Record a metric without failing the test; returns its values 0..1, `None` without a score."""
        __tracebackhide__ = True
        results = [_result(verdict, metric, judge, None) for verdict in self.verdicts]
        self._keep(metric, results)
        return [result.value for result in results]

    def _keep(self, name: str, results: Sequence[_Result]) -> None:
        """Record values and how many passed, as properties of the test in its JUnit XML."""
        values = ["none" if result.value is None else f"{result.value:g}" for result in results]
        self._record(f"assizes.{name}", " ".join(values))
        passed = sum(result.passed is True for result in results)
        self._record(f"assizes.{name}.passed", f"{passed} of {len(results)}")

    def _cases(self) -> Iterator[Case]:
        wanted, given = self._wanted, self._case
        if not 1 <= wanted.repeats <= MAX_REPEATS:
            raise ConfigurationError(f"repeats={wanted.repeats}: give 1 to {MAX_REPEATS}")
        if isinstance(given, list | tuple) and given and all(isinstance(c, Case) for c in given):
            yield from (case.model_copy(update={"repetition": n}) for n, case in enumerate(given))
        elif callable(given):
            for number in range(wanted.repeats):
                case = conversation_case(given(), wanted.name)
                yield case.model_copy(update={"repetition": number})
        elif wanted.repeats > 1:
            raise ConfigurationError(
                f"repeats={wanted.repeats}: one conversation is judged once; give judge() a function "
                "that makes a new one, or set [judge] repeats to ask the model several times"
            )
        else:
            yield conversation_case(given, wanted.name)


@dataclass(frozen=True, slots=True)
class _Result:
    name: str  # of the conversation
    passed: bool | None  # `None`: there is no score
    value: float | None  # 0..1
    reason: str


def _result(
    verdict: Verdict, metric: str | None, judge: str | None, minimum: float | None
) -> _Result:
    name = verdict["case_id"] + (f" #{verdict['repetition']}" if verdict["repetition"] else "")
    name = clean_line(name, 200)
    if metric is None:
        reason = verdict["error"] or verdict["summary"] or verdict["status"]
        passed = verdict["passed"] if verdict["status"] == "judged" else None
        score = verdict["overall_score"]
        value = None if score is None else score / 100
        return _Result(name, passed, value, clean_line(reason, REASON_CHARS))
    score = _score(verdict, metric, judge)
    value, reason = score["value"], score["reason"] or "its judge gives no reason"
    if score["status"] != "scored":
        return _Result(name, None, None, clean_line(f"{score['status']}: {reason}", REASON_CHARS))
    passed = score["passed"]
    if minimum is not None or passed is None:
        passed = value is not None and value >= (ACCEPTABLE / 5 if minimum is None else minimum)
    return _Result(name, passed, value, clean_line(reason, REASON_CHARS))


def _score(verdict: Verdict, metric: str, judge: str | None) -> Mapping[str, Any]:
    """The headline score of a metric; fails the test where there is none, or more than one."""
    __tracebackhide__ = True
    scores = verdict["scores"]
    named = [row for row in scores if row["metric"] == metric and judge in {None, row["judge"]}]
    if len(named) == 1:
        return dict(named[0])
    if named:
        judges = ", ".join(sorted(row["judge"] for row in named))
        pytest.fail(
            f"assizes: metric {metric!r} is scored by several judges; give judge=, one of {judges}",
            pytrace=False,
        )
    known = ", ".join(sorted({row["metric"] for row in scores})) or "none"
    pytest.fail(
        f"assizes: no judge scores {metric!r}; scored: {known} ([judge] metrics)", pytrace=False
    )


def _message(metric: str | None, results: Sequence[_Result], passed: int, needed: int) -> str:
    failed = [result for result in results if result.passed is not True]
    what = metric or "every gate"
    lines = [f"assizes: {passed} of {len(results)} conversations pass {what}, {needed} must"]
    for result in failed[:SHOWN]:
        value = "no score" if result.value is None else f"{result.value:.2f}"
        lines.append(f"  {result.name}: {value}: {result.reason}")
    if (more := len(failed) - SHOWN) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)
