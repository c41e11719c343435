"""What is asked of a pairwise comparison, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from assizes.judge.families.pairwise.rubric import OVERALL
from assizes.judge.families.pairwise.verdict import PairVerdict, Winner
from assizes.judge.pairs.ranking import Ranking
from assizes.judge.pairs.win_rate import RateEstimate, WinRate
from assizes.judge.summary.headlines import FrozenModel

MAX_LISTED: Final = 1_000
"""The most pairs that a result lists; the counts are over all of them."""

_MISFIT: Final = 0.01  # p-value from which a line says that one scale does not explain the pairs
_SHOWN_BIAS: Final = 0.05  # points of position bias from which a line warns


class PairwiseRequest(FrozenModel):
    """Which runs are compared, by which question, and who is asked."""

    runs: tuple[str, ...] = Field(min_length=2)  # named as for `assizes show`, baseline first
    rubric: str = OVERALL
    model: str | None = None  # `None`: the model of the last run
    budget_usd: float | None = Field(default=None, gt=0)  # `None`: as configured
    limit: int | None = Field(default=None, ge=1)  # most pairs of each two runs
    replay_only: bool = False  # use what is stored or cached, and ask no model


class ListedPair(FrozenModel):
    """One pair as a result lists it."""

    case_id: str
    repetition: int
    winner: Winner | None  # `None`: no verdict
    is_flip: bool
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, verdict: PairVerdict) -> ListedPair:
        """The pair of a verdict."""
        return cls(
            case_id=verdict.case_id,
            repetition=verdict.repetition,
            winner=verdict.winner,
            is_flip=verdict.is_flip,
            reasons=verdict.reasons,
        )


class RunPairResult(FrozenModel):
    """The pairs of two runs."""

    baseline: str
    candidate: str
    unmatched: tuple[int, int] = (0, 0)  # cases that only the baseline, only the candidate holds
    unread: int = 0  # pairs of which a transcript is gone or has changed
    result: WinRate
    listed: tuple[ListedPair, ...] = ()  # losses, failures, flips, other ties, wins

    @classmethod
    def of(
        cls,
        runs: tuple[str, str],
        verdicts: Sequence[PairVerdict],
        win_rate: WinRate,
        *,
        unmatched: tuple[int, int] = (0, 0),
        unread: int = 0,
    ) -> RunPairResult:
        """The result with its pairs listed, those first that a person wants to read first."""
        order = {"baseline": 0, None: 1, "tie": 3, "candidate": 4}
        ordered = sorted(
            verdicts,
            key=lambda each: (2 if each.is_flip else order[each.winner], each.case_id),
        )
        return cls(
            baseline=runs[0],
            candidate=runs[1],
            unmatched=unmatched,
            unread=unread,
            result=win_rate,
            listed=tuple(map(ListedPair.of, ordered[:MAX_LISTED])),
        )

    def lines(self) -> Iterator[str]:
        """The result in sentences, the win rate first."""
        counted = self.result
        rate = counted.win_rate
        if rate is None:
            yield f"pairwise: no pair has a verdict; {counted.failed} failed"
        else:
            yield (
                f"pairwise: {self.candidate} wins {_percent(rate)} against {self.baseline}: "
                f"{counted.wins} won, {counted.losses} lost, {counted.ties} tied "
                f"({counted.flips} flips, {counted.halves} halves, {counted.identical} identical); "
                f"{counted.cases} cases in {counted.clusters} clusters"
            )
        if counted.failed:
            reasons = Counter(
                reason for each in self.listed if each.winner is None for reason in each.reasons
            )
            most = "; ".join(reason for reason, _ in reasons.most_common(1))
            yield f"pairs without a verdict: {counted.failed}{': ' * bool(most)}{most}"
        if self.unread:
            yield f"pairs whose transcripts are gone or have changed: {self.unread}"
        if any(self.unmatched):
            yield "cases of one run only: {} of the baseline, {} of the candidate".format(
                *self.unmatched
            )
        yield from _bias_lines(counted)


class PairwiseResult(FrozenModel):
    """A pairwise comparison of two or more runs."""

    rubric: str
    rubric_hash: str
    model: str
    asked: int = Field(ge=0, description="model calls of this command; stored verdicts cost none")
    cost_usd: float = Field(ge=0)
    pairs: tuple[RunPairResult, ...]
    ranking: Ranking | None = None  # where one was asked for

    def lines(self) -> Iterator[str]:
        """The result in sentences: the ranking where there is one, else the pairs of two runs."""
        yield f"question: {self.rubric} ({self.rubric_hash}), asked of {self.model} in both orders"
        if self.ranking is not None:
            yield from _ranking_lines(self.ranking)
        for pair in self.pairs:
            yield from pair.lines()
        yield f"asked now: {self.asked} calls, {self.cost_usd:.4f} USD"


class PairwisePlan(FrozenModel):
    """What a pairwise comparison would ask at the most."""

    pairs: int  # of cases, over all pairs of runs
    stored: int  # of them, with a verdict already
    asks: int
    usd: float | None = None  # `None`: no price is known

    def sentence(self) -> str:
        """The plan in a sentence."""
        usd = "at an unknown price" if self.usd is None else f"for about {self.usd:.4f} USD"
        return (
            f"{self.pairs} pairs, {self.stored} of them judged already: {self.asks} asks {usd} "
            "at the most, before the reply cache"
        )


def _ranking_lines(ranking: Ranking) -> Iterator[str]:
    if ranking.why_not is not None:
        yield f"no ranking: {ranking.why_not}"
        return
    for run in ranking.runs:
        if run.strength is None or run.win_chance is None:
            continue
        ranks = f"rank {run.best_rank}"
        if run.worst_rank != run.best_rank:
            ranks = f"rank {run.best_rank} to {run.worst_rank}"
        yield (
            f"{run.rank}. {run.run}: wins {_percent(run.win_chance)} against a run of the mean "
            f"strength; {ranks}; {run.points:g} points of {run.pairs} pairs"
        )
    if ranking.added_ties:
        yield (
            f"a run won or lost everything: {ranking.added_ties} ties were added, one for each two "
            "runs, so that its strength is finite"
        )
    if ranking.misfit_p_value is not None and ranking.misfit_p_value <= _MISFIT:
        yield (
            f"the runs do not fit one scale (p {ranking.misfit_p_value:.2g}): read the pairs "
            "below, not the ranks alone"
        )


def _bias_lines(counted: WinRate) -> Iterator[str]:
    flips, bias, length = counted.flip_rate, counted.position_bias, counted.length
    if flips is not None and bias is not None:
        yield (
            f"place: {_percent(flips)} of the pairs flip with the order; position bias "
            f"{_points(bias)}"
        )
        if bias.excludes(0.0) and abs(bias.value) >= _SHOWN_BIAS and counted.one_order is not None:
            yield (
                f"the judge prefers the side shown {'first' if bias.value > 0 else 'second'}: one "
                f"order alone would have said {100 * counted.one_order:.1f} %"
            )
    if length.longer_wins is not None:
        line = f"length: the longer side wins {_percent(length.longer_wins)} of {length.decided}"
        if length.win_rate_at_equal_length is not None:
            line += f"; at equal length the win rate is {_percent(length.win_rate_at_equal_length)}"
        yield line


def _percent(share: RateEstimate) -> str:
    span = "" if share.low is None or share.high is None else _span(share.low, share.high, "")
    return f"{100 * share.value:.1f} %{span}"


def _points(share: RateEstimate) -> str:
    span = "" if share.low is None or share.high is None else _span(share.low, share.high, "+")
    return f"{100 * share.value:+.1f} points{span}"


def _span(low: float, high: float, sign: str) -> str:
    return f" [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"
