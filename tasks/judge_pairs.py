"""Puts the pairs of two runs to a judge, and stores each verdict as soon as it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.case import Case
from assizes.judge.config.judging import estimated_tokens
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import OverBudget
from assizes.judge.families.pairwise.judge import PairJudge, verdict_of
from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.hearing import Hearing
from assizes.judge.model_factory import model_for
from assizes.judge.pairs.ranking import rank_runs
from assizes.judge.pairs.result import PairwisePlan, PairwiseResult, RunPairResult
from assizes.judge.pairs.win_rate import win_rate
from assizes.judge.protocol import Ask
from assizes.tasks.context.pair_judging import PairJudging, RunPair
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.runs.pair_verdicts import PairedRows, read_sides, store_verdicts
from assizes.tasks.runtime.process import redacts_secrets

CHUNK: Final = 100
"""The pairs that are read, judged and stored together: what a killed command loses at most."""

_REPLY_TOKENS: Final = 150
"""Tokens of a reply about one order, for the plan."""

_BUDGET: Final = "budget"  # failure code of an ask that the ledger refused


class JudgedPairs(NamedTuple):
    """The verdicts on the pairs of two runs, stored ones included."""

    pair: RunPair
    verdicts: list[PairVerdict]
    unread: int  # pairs of which a transcript is gone or has changed


@redacts_secrets
@task(name="judge_pairs", cache_policy=NO_CACHE, persist_result=False, result_serializer="json")
async def judge_pairs(judging: PairJudging, pair: RunPair, context: RunContext) -> JudgedPairs:
    """Judge the pairs that have no stored verdict.

    Raises:
        OverBudget: the budget was spent; verdicts so far are stored.
    """
    engine = context.engine_for(judging.ledger_id)
    pending = pair.pending()
    verdicts: list[PairVerdict] = []
    unread = 0
    for chunk in _chunks(pending):
        sides = await asyncio.to_thread(read_sides, pair.runs, chunk)
        unread += sum(side is None for side in sides)
        codes: list[str] = []
        heard = await asyncio.gather(
            *(_hear(engine, judging, side, codes) for side in sides if side is not None)
        )
        clusters = {(row["case_id"], row["repetition"]): row["cluster"] for row in chunk.baseline}
        judged = [_stored_form(each, clusters, context) for each in heard]
        await asyncio.to_thread(
            store_verdicts, judging.store, pair.runs, pair.key, judging.rubric, judged
        )
        verdicts += judged
        context.progress("comparing", len(verdicts) + unread, len(pending.baseline))
        if _BUDGET in codes:
            raise OverBudget(
                "the budget is spent; verdicts so far are stored, and the same command goes on"
            )
    return JudgedPairs(pair, pair.verdicts(verdicts), unread)


async def _hear(
    engine: Engine, judging: PairJudging, sides: tuple[Case, Case], codes: list[str]
) -> PairVerdict:
    judge = PairJudge(judging.rubric, sides[1], judging.reading)
    score = (await engine.hear(judge, sides[0])).scores[0]
    if score.status == "failed":
        codes.append(str(score.details.get("error")))
    return verdict_of(score, sides[0])


def _stored_form(
    verdict: PairVerdict, clusters: dict[tuple[str, int], str | None], context: RunContext
) -> PairVerdict:
    """The verdict with the cluster as it is stored, and reasons as people may see them."""
    # Where judges are sent the raw case, its cluster is stored as a pseudonym.
    cluster = clusters[verdict.case_id, verdict.repetition] or verdict.case_id
    reasons = tuple(map(context.preprocessor.displayed_text, verdict.reasons))
    return verdict.model_copy(update={"cluster": cluster, "reasons": reasons})


def _chunks(pairs: PairedRows) -> Iterator[PairedRows]:
    for start in range(0, len(pairs.baseline), CHUNK):
        stop = start + CHUNK
        yield PairedRows(pairs.baseline[start:stop], pairs.candidate[start:stop], pairs.unmatched)


def pairwise_result(
    judging: PairJudging,
    judged: list[JudgedPairs],
    *,
    asked: int = 0,
    cost_usd: float = 0.0,
    ranks: bool = False,
) -> PairwiseResult:
    """The result of all pairs of runs; `ranks` adds the strengths of the runs."""
    verdicts = {each.pair.names: each.verdicts for each in judged}
    return PairwiseResult(
        rubric=judging.rubric.name,
        rubric_hash=judging.rubric.content_hash(),
        model=judging.config.judge.model_id,
        asked=asked,
        cost_usd=cost_usd,
        pairs=tuple(
            RunPairResult.of(
                each.pair.names,
                each.verdicts,
                win_rate(each.verdicts),
                unmatched=each.pair.rows.unmatched,
                unread=each.unread,
            )
            for each in judged
        ),
        ranking=rank_runs(judging.run_ids, verdicts) if ranks else None,
    )


def stored_result(judging: PairJudging, *, ranks: bool = False) -> PairwiseResult:
    """The result of the stored verdicts alone."""
    judged = [JudgedPairs(pair, pair.verdicts(), 0) for pair in judging.pairs]
    return pairwise_result(judging, judged, ranks=ranks)


def plan_pairs(judging: PairJudging) -> PairwisePlan:
    """What the comparison asks at the most; replies in the cache are counted too."""
    config = judging.config
    price = model_for(config.judge, config.limits).price
    asks, usd = 0, 0.0
    for pair in judging.pairs:
        for chunk in _chunks(pair.pending()):
            for sides in filter(None, read_sides(pair.runs, chunk)):
                judge = PairJudge(judging.rubric, sides[1], judging.reading)
                for ask in Hearing(judge, sides[0]).asks:
                    if not isinstance(ask, Ask):
                        continue
                    asks += 1
                    tokens = estimated_tokens(ask.prompt.system, ask.prompt.user)
                    usd += 0.0 if price is None else price.cost_usd(tokens, _REPLY_TOKENS)
    return PairwisePlan(
        pairs=sum(len(pair.rows.baseline) for pair in judging.pairs),
        stored=sum(len(pair.verdicts()) for pair in judging.pairs),
        asks=asks,
        usd=None if price is None else usd,
    )
