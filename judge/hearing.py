"""The hearing of one case by one judge: the only stateful class of the domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.protocol import FileText, Judge, JudgeFailed, NoReply, QueryResult, Question
from assizes.judge.score import Score


class Hearing:
    """One case before one judge: while there are `asks`, `answer` them; then read the `scores`.

    Every metric that the judge promised gets a headline score, skipped or failed where there is no
    number. An exception of the judge other than `JudgeFailed` is a bug and is not caught.
    """

    def __init__(self, judge: Judge, case: Case) -> None:
        """Open the hearing and run the judge up to its first round of questions."""
        self.judge = judge
        self.case = case
        self.asks: Sequence[Question] = ()  # the pending round; empty when closed
        self.scores: list[Score] = []  # final when closed
        self._steps: Generator[Sequence[Question], Sequence[Any], list[Score]] | None = None
        reason = f"conversation status is {case.status!r}, only completed ones are judged"
        if case.status == "completed":
            reason = judge.missing(case) or ""
        if reason:
            self.scores = [Score.skipped(metric.name, reason) for metric in judge.metrics]
            return
        findings = judge.judge(case)
        if isinstance(findings, list):  # the judge asks nothing
            self._close(findings)
        else:
            self._steps = findings
            self._advance(None)

    @property
    def is_closed(self) -> bool:
        """Whether all asks are answered and the scores are final."""
        return not self.asks

    def answer(self, replies: Sequence[BaseModel | QueryResult | FileText | NoReply]) -> None:
        """Give the judge one answer for each pending ask, in the order of the asks.

        Raises:
            ValueError: when there are more or fewer answers than asks.
        """
        if len(replies) != len(self.asks):
            raise ValueError(f"{len(self.asks)} asks are pending, {len(replies)} replies given")
        self._advance(replies)

    def _advance(
        self, replies: Sequence[BaseModel | QueryResult | FileText | NoReply] | None
    ) -> None:
        if self._steps is None:
            raise ValueError("the hearing is closed")
        try:
            asks = self._steps.send(replies)  # type: ignore[arg-type]  # None starts a generator
            while not asks:  # an empty round, e.g. `ask_each([])`: nobody would answer it
                asks = self._steps.send(())
            self.asks = asks
        except StopIteration as done:
            self._close(done.value)
        except JudgeFailed as failed:
            reason, code = failed.no_reply.reason, failed.no_reply.code
            self._close([Score.failed(metric.name, reason, code) for metric in self.judge.metrics])

    def _close(self, scores: list[Score]) -> None:
        headlines = Counter(score.metric for score in scores if not score.part)
        for name, times in headlines.items():
            if times > 1:  # they would be two rows with one key
                raise ValueError(f"judge {self.judge.name!r} returned two scores for {name!r}")
        forgotten = [
            Score.failed(metric.name, "the judge returned no score for it", "missing_score")
            for metric in self.judge.metrics
            if metric.name not in headlines
        ]
        self.asks, self._steps = (), None
        self.scores = [*scores, *forgotten]
