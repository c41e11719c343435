"""Whether two runs may be compared: judged alike, by the same measures, over the same cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from assizes.judge.config.diff import FINGERPRINTS, PRIVACY, TRUTH, FieldChange

MIN_OVERLAP: Final = 0.95
"""Share of the larger run's cases that both must hold for a comparison case by case."""

DISJOINT: Final = 0.05
"""Under this overlap the runs are two samples of the same traffic, compared as such."""

_TABLES: Final = ("judge", FINGERPRINTS, PRIVACY, TRUTH, "thresholds")
_READING: Final = ("transcripts.writes", "transcripts.redact", "transcripts.format")
_PLACES: Final = ("judge.rubrics", "judge.api_base")
# Where rubrics and endpoints are; what they say and who answered is compared by itself.


class Mismatch(BaseModel):
    """One thing that differs and makes a change of the numbers something else than the agent's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    baseline: Any
    candidate: Any
    of_judge: bool

    @property
    def line(self) -> str:
        """The field with both values."""
        return f"{self.field}: {_value_text(self.baseline)} -> {_value_text(self.candidate)}"


def mismatches(
    changes: Sequence[FieldChange],
    answered_by: tuple[Sequence[str], Sequence[str]],
    overlap: float,
) -> tuple[Mismatch, ...]:
    """What keeps two runs from being compared; empty for runs that were judged alike.

    Other ground truth makes a change of the numbers something else than the agent's where the cases
    are the same; two samples of the traffic have each their own.

    Args:
        changes: the settings that differ.
        answered_by: the models that answered, of the baseline and of the candidate; where a side
            knows none it is not compared.
        overlap: shared cases / cases of the larger run, 0..1.
    """
    relevant_changes = [
        change for change in changes if change.field != TRUTH or overlap >= DISJOINT
    ]
    return (*_settings(relevant_changes), *_models(*answered_by), *_cases(overlap))


def _settings(changes: Sequence[FieldChange]) -> Iterator[Mismatch]:
    for change in changes:
        table = change.field.partition(".")[0]
        if change.field in _PLACES or (table not in _TABLES and change.field not in _READING):
            continue
        yield Mismatch(
            field=change.field,
            baseline=change.baseline,
            candidate=change.candidate,
            of_judge=table != "thresholds",
        )


def _models(before: Sequence[str], after: Sequence[str]) -> Iterator[Mismatch]:
    sides = [", ".join(sorted(side)) for side in (before, after)]
    if all(sides) and sides[0] != sides[1]:
        yield Mismatch(field="answered_by", baseline=sides[0], candidate=sides[1], of_judge=True)


def _cases(overlap: float) -> Iterator[Mismatch]:
    if DISJOINT <= overlap < MIN_OVERLAP:
        yield Mismatch(
            field="cases",
            baseline=f"at least {MIN_OVERLAP:.0%} in both runs, or under {DISJOINT:.0%}",
            candidate=f"{overlap:.1%} in both",
            of_judge=False,
        )


def _value_text(value: Any) -> str:
    return "not set" if value is None else str(value)
