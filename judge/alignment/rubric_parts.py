"""What of a rubric its tests look at: the texts that a judge reads, and the levels in their order."""

from __future__ import annotations

from assizes.judge.alignment.rubric_files import RubricFile
from assizes.judge.families.custom.toml_judges import CustomRubric
from assizes.judge.rubrics.lint import LintFinding, RubricParts, lint
from assizes.judge.rubrics.rubric import BINARY_LEVELS, SCORED_LEVELS, Rubric


def levels_of(rubric: Rubric | CustomRubric) -> tuple[str, ...]:
    """The keys of the levels, the best first."""
    if isinstance(rubric, CustomRubric):
        return rubric.words
    return SCORED_LEVELS if rubric.score_type == "scored" else BINARY_LEVELS


def lint_findings(file: RubricFile) -> list[LintFinding]:
    """What the rules find in the text of a rubric."""
    rubric = file.table
    levels = {key: level.criteria for key, level in rubric.levels.items()}
    question = {"question": rubric.question} if isinstance(rubric, CustomRubric) else {}
    return lint(
        RubricParts(
            about=" ".join((rubric.name, rubric.display_name, rubric.description)),
            texts={
                **question,
                **{f"levels.{key}": text for key, text in levels.items()},
                "notes": rubric.notes,
                **{f"guidelines.{n}": rule.text for n, rule in enumerate(rubric.guidelines, 1)},
            },
            levels=levels,
        )
    )
