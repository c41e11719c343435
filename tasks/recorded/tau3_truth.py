"""The corrected truth of the airline tasks: what a wrong truth does to judges held against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from assizes.tasks.recorded.reading import BINARY, Rows, agreement, rows_of, set_folder, yes_no
from assizes.tasks.recorded.tau2_judges import FOLDER as JUDGES
from assizes.tasks.recorded.tau2_judges import PROMPTS, judge_name, verdicts
from assizes.tasks.recorded.values import ALL, JudgedItems, RecordedSet

NAME: Final = "tau3 truth"
RULES: Final = ("rule_old", "rule_new", "rule_verified")


class AirlineRun(NamedTuple):
    """One recorded run of an agent: what it was paid, and what the rules say."""

    agent: str
    simulation: str
    task: str
    group: str  # unchanged, scenario, writes, both
    recorded: bool
    rules: dict[str, bool]

    @property
    def asks_the_same(self) -> bool:
        """Whether the corrected task still asks what this run was asked."""
        return self.group in ("unchanged", "writes")

    @property
    def corrected(self) -> bool:
        """The corrected reward; of the runs that `asks_the_same`."""
        return self.recorded if self.group == "unchanged" else self.rules["rule_new"]


def read(folder: Path) -> RecordedSet:
    """The deterministic rule and the four language model judges, by recorded and corrected truth."""
    here = set_folder(folder, NAME.replace(" ", "_"))
    rows, changes = rows_of(here / "rewards.csv"), rows_of(here / "changes.jsonl")
    runs = [_run(row) for row in rows]
    agents = list(dict.fromkeys(run.agent for run in runs))
    same = [run for run in runs if run.asks_the_same]
    judged = [
        _judged_runs(
            "task completed, corrected truth", "recorded reward", same, [r.recorded for r in same]
        )
    ]
    figures = dict[str, float | str]()
    for agent in agents:
        figures |= _agent(agent, [run for run in runs if run.agent == agent])
    figures |= {**_all(runs, same), **_changes(changes)}
    if (folder / JUDGES).is_dir():
        own = [run for run in runs if run.agent == "gpt-4o"]
        for prompt in PROMPTS:
            verdict_of = verdicts(folder, prompt)
            kept = [run for run in own if run.asks_the_same]
            answers = [verdict_of[run.simulation] == 1 for run in kept]
            judge = f"{judge_name(prompt)}, no verdict as fail"
            judged.append(_judged_runs("task completed, corrected truth", judge, kept, answers))
            figures |= _judge(prompt, own, verdict_of)
    return RecordedSet(NAME, judged, figures)


def _run(row: Any) -> AirlineRun:
    rules = {rule: row[rule] == "1" for rule in RULES}
    recorded = float(row["recorded_reward"]) == 1
    return AirlineRun(
        row["agent"], row["simulation_id"], row["task_id"], row["group"], recorded, rules
    )


def _judged_runs(
    task: str, judge: str, runs: Sequence[AirlineRun], answers: Sequence[bool]
) -> JudgedItems:
    items = yes_no(
        (run.simulation, run.task, run.corrected, yes)
        for run, yes in zip(runs, answers, strict=True)
    )
    return JudgedItems(NAME, task, judge, items, BINARY, ALL)


def _kappa(pairs: Sequence[tuple[bool, bool]]) -> float:
    return agreement([(float(first), float(second)) for first, second in pairs]).kappa


def _agent(agent: str, runs: Sequence[AirlineRun]) -> dict[str, float | str]:
    same = [run for run in runs if run.asks_the_same]
    figures: dict[str, float | str] = {
        f"{agent}: runs": len(runs),
        f"{agent}: recorded passes": sum(run.recorded for run in runs),
        **{f"{agent}: {rule}": sum(run.rules[rule] for run in runs) for rule in RULES},
        **{
            f"{agent}: kappa of recorded and {rule}": _kappa(
                [(run.recorded, run.rules[rule]) for run in runs]
            )
            for rule in RULES[:2]
        },
    }
    corrected = [(run.recorded, run.corrected) for run in same]
    figures |= {
        f"{agent}: same question, runs": len(same),
        f"{agent}: same question, recorded passes": sum(run.recorded for run in same),
        f"{agent}: same question, corrected passes": sum(run.corrected for run in same),
        f"{agent}: same question, kappa": _kappa(corrected),
    }
    return figures


def _all(runs: Sequence[AirlineRun], same: Sequence[AirlineRun]) -> dict[str, float | str]:
    writes = [run for run in runs if run.group == "writes"]
    strongest = [run for run in same if run.agent == "claude-sonnet-4.5" and not run.recorded]
    groups = ("unchanged", "scenario", "both", "writes")
    return {
        **{f"group {name}": sum(run.group == name for run in runs) for name in groups},
        "all runs": len(runs),
        "dropped runs": len(runs) - len(same),
        "same question, runs": len(same),
        "same question, recorded passes": sum(run.recorded for run in same),
        "same question, corrected passes": sum(run.corrected for run in same),
        "same question, runs that change": sum(run.recorded != run.corrected for run in same),
        "same question, kappa": _kappa([(run.recorded, run.corrected) for run in same]),
        "group writes: recorded passes": sum(run.recorded for run in writes),
        "group writes: rule_new": sum(run.rules["rule_new"] for run in writes),
        "group writes: rule_verified": sum(run.rules["rule_verified"] for run in writes),
        "group writes: rule_old as recorded": sum(
            run.recorded == run.rules["rule_old"] for run in writes
        ),
        "strongest agent: recorded failures": len(strongest),
        "strongest agent: of them corrected passes": sum(run.corrected for run in strongest),
    }


def _changes(changes: Rows) -> dict[str, float | str]:
    """How many tasks were corrected, and in what."""
    writes = [task for task in changes if task["writes_changed"]]
    return {
        "tasks that differ": len(changes),
        "tasks with another scenario": sum(task["scenario_changed"] for task in changes),
        "tasks with other writes": len(writes),
        "tasks with other writes, same scenario": sum(
            not task["scenario_changed"] for task in writes
        ),
        "tasks where the second correction differs": sum(
            bool(task["verified_differs_from_new"]) for task in changes
        ),
    }


def _judge(
    prompt: str, runs: Sequence[AirlineRun], verdict_of: dict[str, float]
) -> dict[str, float | str]:
    same = [run for run in runs if run.asks_the_same]
    return {
        f"{prompt}: kappa, all as recorded": _kappa(
            [(run.recorded, verdict_of[run.simulation] == 1) for run in runs]
        ),
        f"{prompt}: kappa, same question as recorded": _kappa(
            [(run.recorded, verdict_of[run.simulation] == 1) for run in same]
        ),
        f"{prompt}: kappa, same question corrected": _kappa(
            [(run.corrected, verdict_of[run.simulation] == 1) for run in same]
        ),
    }
