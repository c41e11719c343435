"""DevAI: whether an agent's work meets a requirement, by people and by a recorded agent judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assizes.judge.calibration.measures import yes_no_agreement
from assizes.tasks.recorded.reading import BINARY, Rows, rows_of, set_folder, yes_no
from assizes.tasks.recorded.values import ALL, JudgedItems, RecordedSet

TASK: Final = "requirement met"
SIDES: Final = ("human", "judge")

Requirement = tuple[str, int]  # task, place in the task


def read(folder: Path) -> RecordedSet:
    """Verdicts by coding agent and of both together; clusters are tasks."""
    here = set_folder(folder, "devai")
    rows = rows_of(here / "verdicts.csv")
    needs = {
        (task["task"], requirement["requirement_id"]): requirement["prerequisites"]
        for task in rows_of(here / "tasks.jsonl")
        for requirement in task["requirements"]
    }
    by_agent = defaultdict[str, list[Mapping[str, Any]]](list)
    for row in rows:
        by_agent[row["agent"]].append(row)
    judged, figures = [], dict[str, float | str]()
    for part, own in {**by_agent, ALL: rows}.items():
        items = yes_no(
            (
                f"{row['agent']}/{row['task']}/{row['requirement_id']}",
                row["task"],
                row["human"] == "true",
                row["judge"] == "true",
            )
            for row in own
        )
        judged.append(JudgedItems("DevAI", TASK, "gray-box agent judge", items, BINARY, part))
        figures |= _counts("both" if part == ALL else part, own)
    for agent, own in by_agent.items():
        figures |= _satisfied_counts(agent, own, needs)
    for side in SIDES:
        shares = [float(figures[f"{agent}: satisfied by {side}, %"]) for agent in by_agent]
        figures[f"difference of the agents by {side}, points"] = shares[0] - shares[1]
    return RecordedSet("DevAI", judged, figures)


def _counts(name: str, rows: Rows) -> dict[str, float | str]:
    counts = yes_no_agreement((row["judge"] == "true", row["human"] == "true") for row in rows)
    return {
        f"{name}: items": counts.total,
        f"{name}: both true": counts.true_positives,
        f"{name}: human only": counts.false_negatives,
        f"{name}: judge only": counts.false_positives,
        f"{name}: both false": counts.true_negatives,
        f"{name}: agreement": counts.accuracy or 0.0,
        f"{name}: kappa": counts.kappa or 0.0,
        f"{name}: judge calls met what is not": counts.false_positive_rate or 0.0,
        f"{name}: judge calls not met what is": counts.false_negative_rate or 0.0,
    }


def _satisfied_counts(
    agent: str, rows: Rows, needs: Mapping[Requirement, Sequence[int]]
) -> dict[str, float | str]:
    figures = dict[str, float | str]()
    for side in SIDES:
        met = {(row["task"], int(row["requirement_id"])): row[side] == "true" for row in rows}
        tasks = defaultdict[str, list[bool]](list)
        for (task, _), passed in met.items():
            tasks[task].append(passed)
        figures[f"{agent}: satisfied by {side}"] = sum(met.values())
        figures[f"{agent}: satisfied by {side}, %"] = 100 * sum(met.values()) / len(met)
        figures[f"{agent}: satisfied with prerequisites by {side}"] = sum(
            _counts_with_needs(key, met, needs) for key in met
        )
        figures[f"{agent}: whole tasks by {side}"] = sum(all(of) for of in tasks.values())
        figures[f"{agent}: tasks"] = len(tasks)
    return figures


def _counts_with_needs(
    key: Requirement,
    met: Mapping[Requirement, bool],
    needs: Mapping[Requirement, Sequence[int]],
    above: frozenset[Requirement] = frozenset(),  # a circle of prerequisites ends here
) -> bool:
    if not met.get(key) or key in above:
        return False
    return all(
        _counts_with_needs((key[0], need), met, needs, above | {key}) for need in needs.get(key, ())
    )
