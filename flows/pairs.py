"""Compares the conversations of two or more runs pair by pair, and ranks the runs."""

from __future__ import annotations

from typing import Final

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Completed

from assizes.flows.server import finds_server
from assizes.judge.config.run import RunConfig
from assizes.judge.pairs.result import PairwiseRequest, PairwiseResult
from assizes.tasks.context.artifacts import artifact_key, ignore_server_errors
from assizes.tasks.context.pair_judging import PairJudging, open_pair_context
from assizes.tasks.judge_pairs import judge_pairs, pairwise_result
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import existing_store

KEY: Final = "assizes-pairwise"
"""Artifact key of a pairwise comparison's Markdown; the name of the rubric follows it."""


@redacts_secrets
@finds_server
@flow(name="compare-pairs", flow_run_name="compare-pairs", result_serializer="json")
async def compare_pairs(
    config: RunConfig, request: PairwiseRequest, *, ranks: bool = False
) -> State[PairwiseResult]:
    """Judge every pair of conversations that has no verdict, in both orders; then count.

    The data of the state `Compared` is the `PairwiseResult`. The flow leaves a Markdown artifact
    `assizes-pairwise-<rubric>`.

    Args:
        config: store, cache, prices and limits; the judge's other settings are those of the last run.
        request: the runs, the question, the model and the budget.
        ranks: whether strengths of the runs are estimated as well.
    """
    with existing_store(config.store) as store:
        judging = PairJudging(store, config, request)
        async with open_pair_context(judging) as context:
            judged = [await judge_pairs(judging, pair, context) for pair in judging.pairs]
            engine = context.engine_for(judging.ledger_id)
            result = pairwise_result(
                judging, judged, asked=engine.calls, cost_usd=engine.cost_usd, ranks=ranks
            )
    lines = "\n".join(f"- {line}" for line in result.lines())
    with ignore_server_errors("the comparison"):
        await acreate_markdown_artifact(lines, key=f"{KEY}-{artifact_key(result.rubric)}")
    return Completed(name="Compared", message=next(result.lines(), ""), data=result)
