"""Two runs of a store, side by side, by the documents' rules."""

from __future__ import annotations

import asyncio

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from judge.compare import RunComparison
from judge.config import ComparisonConfig, StoreConfig
from tasks.compared import compare_stored
from tasks.store import open_store


@flow(name="compare", flow_run_name="compare-{candidate}", result_serializer="json")
async def compare_runs(
    baseline: str,
    candidate: str,
    store: StoreConfig,
    thresholds: ComparisonConfig | None = None,
    *,
    fail_flow: bool = True,
) -> State[RunComparison]:
    """Compare two stored runs; a regression ends the flow in a failed state named `Regression`.

    Args:
        baseline: run id (a unique prefix will do).
        candidate: run id (a unique prefix will do).
        store: where both lie.
        thresholds: limits of the three rules; the documents' defaults when left out.
        fail_flow: false keeps the state `Completed` and only its name tells.
    """
    limits = thresholds or ComparisonConfig()
    comparison = await asyncio.to_thread(_compare, store, baseline, candidate, limits)
    if not comparison.verdict.regression_detected:
        return Completed(name="NoRegression", message="no regression", data=comparison)
    state = Failed if fail_flow else Completed
    message = "; ".join(comparison.verdict.reasons)
    return state(name="Regression", message=message, data=comparison)


def _compare(
    config: StoreConfig, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> RunComparison:
    with open_store(config, writing=True) as store:
        return compare_stored(store, baseline, candidate, thresholds)
