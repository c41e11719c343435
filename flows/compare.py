"""The flow `compare`: compares two stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from assizes.flows.server import finds_server
from assizes.judge.comparison.compare import Ending, RunComparison
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import StoreConfig
from assizes.tasks.context.artifacts import publish_artifacts
from assizes.tasks.reports.stored import stored_report_data
from assizes.tasks.runs.stored_comparison import compare_stored
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import existing_store

KEYS: Final = ("assizes-comparison", "assizes-changes")
"""Artifact keys of a comparison's Markdown and of its table."""

STATES: Final[Mapping[Ending, str]] = {
    "fine": "NoRegression",
    "regressed": "Regression",
    "inconclusive": "Inconclusive",
    "not_comparable": "NotComparable",
}
"""The name of the Prefect state for each ending of a comparison."""


@redacts_secrets
@finds_server
@flow(name="compare", flow_run_name="compare-{candidate}", result_serializer="json")
async def compare_runs(
    baseline: str,
    candidate: str,
    store: StoreConfig,
    thresholds: ComparisonConfig | None = None,
    *,
    fail_flow: bool = True,
) -> State[RunComparison]:
    """Compare two stored runs; the flow fails unless the candidate is no worse than the baseline.

    The state is named `NoRegression`, `Regression`, `NotComparable` when the runs were judged
    differently, or `Inconclusive` when statistics decide and there is too little data. The flow
    leaves a Markdown artifact `assizes-comparison-<name>` and a table `assizes-changes-<name>`.

    Args:
        baseline: a run by its id or another name: `latest`, `nightly~1`, `nightly@2026-11-20`.
        candidate: another run, named in the same ways.
        store: the store with both runs.
        thresholds: limits of the three rules; None: the default limits.
        fail_flow: whether any state but `NoRegression` is a failed state.
    """
    limits = thresholds or ComparisonConfig()
    comparison, data = await asyncio.to_thread(_compare, store, baseline, candidate, limits)
    await publish_artifacts(data, {}, keys=KEYS)  # no report is written, so no links
    verdict = comparison.verdict
    state = Failed if fail_flow and verdict.ending != "fine" else Completed
    message = "no regression" if verdict.ending == "fine" else "; ".join(verdict.why)
    return state(name=STATES[verdict.ending], message=message, data=comparison)


def _compare(
    config: StoreConfig, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> tuple[RunComparison, dict[str, Any]]:
    with existing_store(config) as store:
        comparison = compare_stored(store, baseline, candidate, thresholds)
        record = store.run(comparison.candidate_run_id)  # `candidate` may be `latest`
        return comparison, stored_report_data(store, record, comparison)
