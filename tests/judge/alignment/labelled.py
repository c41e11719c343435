"""Labelled cases in short."""

from __future__ import annotations

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.case import Case


def item(
    number: int,
    *,
    people: bool,
    judge: bool | None,
    cluster: str | None = None,
    weight: float = 1.0,
    text: str | None = None,
) -> LabelledCase:
    """A case with one answer; without a cluster it is its own."""
    said = text if text is not None else f"Answer number {number}."
    turns = [{"role": "user", "text": "Well?"}, {"role": "assistant", "text": said}]
    case = Case.model_validate({"case_id": f"case-{number}", "transcript": {"turns": turns}})
    return LabelledCase(case, said, cluster or f"cluster-{number}", people, judge, weight)
