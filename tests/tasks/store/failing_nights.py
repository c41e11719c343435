"""Nights of one agent whose cases fail for known reasons."""

from __future__ import annotations

from collections.abc import Callable

from assizes.judge.rows import SHARD_TABLES, TABLES, frame
from assizes.tasks.store import Store
from tests.tasks.store.rows import BEGAN, COUNTS, ended, run_metrics, run_record, score_row

RUDE = "The tone of the agent is rude and impatient."
WRONG = "The sum of the prices is wrong."


def night(
    store: Store,
    number: int,
    reasons: dict[int, str],
    *,
    complete: bool = True,
    versions: Callable[[int], str | None] = lambda case: None,
) -> str:
    """A night over 40 cases, of which some failed for a reason; `versions` are the agent's."""
    run_id = f"night-{number}"
    begun = store.begin(run_record(run_id, started_at=BEGAN.replace(day=number)))
    scores, cases = [], []
    for case in range(40):
        fails = case in reasons
        row = dict.fromkeys(TABLES["cases"]) | {
            **{"run_id": run_id, "case_id": f"c{case}", "repetition": 0, "status": "judged"},
            "passed": not fails,
            "agent_version": versions(case),
        }
        cases.append(row)
        told = {"passed": not fails, "reason": reasons.get(case), "failure_code": None}
        scores.append(score_row(run_id, f"c{case}", value=float(not fails), weight=0.5, **told))
    frames = {table: frame(table, []) for table in SHARD_TABLES}
    frames |= {"scores": frame("scores", scores), "cases": frame("cases", cases)}
    store.commit_shard(run_id, "s0", frames, COUNTS)
    if complete:
        store.finish(ended(begun), run_metrics(run_id))
    return run_id


RUDE_CASES = dict.fromkeys(range(8), RUDE)
WRONG_CASES = dict.fromkeys(range(20, 30), WRONG)
