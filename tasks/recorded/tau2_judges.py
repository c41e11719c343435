"""The airline judge of tau2: one model with four prompts, as raw replies, beside the reward."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.config.gates import LabelColumns
from assizes.tasks.recorded.reading import BINARY, graded_items, pairs_of, rows_of, set_folder
from assizes.tasks.recorded.values import JudgedItems, RecordedSet

FOLDER: Final = "tau2_airline_llm_judges"
PROMPTS: Final = (
    "customer_outcome_v1",
    "policy_chain_of_thought_v1",
    "policy_conversation_v1",
    "quick_triage_v1",
)
COLUMNS: Final = LabelColumns(
    case="simulation_id", label=("tau2_reward",), reply="judge_response", cluster="task_id"
)
CONFIG: Final = BINARY.model_copy(update={"columns": COLUMNS})
AS_AUTHORS: Final = CONFIG.model_copy(update={"words": {"satisfied": 1.0}})
"""The authors read `satisfied` as a pass, too; their other words are no verdict to them."""


def read(folder: Path) -> RecordedSet:
    """Four judges of the same 50 conversations; a word outside pass and fail is no grade."""
    judged, figures = [], dict[str, float | str]()
    for prompt in PROMPTS:
        file = set_folder(folder, FOLDER) / f"{prompt}.jsonl.gz"
        rows = rows_of(file)
        judged.append(
            JudgedItems("tau2 airline", "task completed", judge_name(prompt), _items(file), CONFIG)
        )
        read_as_authors = graded_items(rows, rows, AS_AUTHORS, file.name)
        agreed = sum(people == judge for people, judge in pairs_of(read_as_authors, AS_AUTHORS))
        figures[f"{prompt}: judged"] = len(rows)
        figures[f"{prompt}: agree"] = agreed
        figures[f"{prompt}: disagree"] = len(rows) - agreed
        figures[f"{prompt}: no verdict"] = sum(item.judged is None for item in read_as_authors)
        figures[f"{prompt}: cost, US dollars"] = sum(row["judge_cost_usd"] for row in rows)
        figures[f"{prompt}: replies in a Markdown fence"] = sum(
            row["judge_response"].lstrip().startswith("```") for row in rows
        )
    return RecordedSet("tau2 airline", judged, figures)


def judge_name(prompt: str) -> str:
    """The judge by its model and its prompt."""
    return f"gpt-4o, {prompt}"


def verdicts(folder: Path, prompt: str) -> dict[str, float]:
    """By simulation: 1 for the verdict `pass`, 0 for every other word."""
    items = _items(set_folder(folder, FOLDER) / f"{prompt}.jsonl.gz")
    return {item.case_id: item.judged or 0.0 for item in items}


def _items(file: Path) -> list[RatedItem]:
    rows = rows_of(file)
    return graded_items(rows, rows, CONFIG, file.name)
