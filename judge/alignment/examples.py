"""Which labelled cases a rubric shows as examples, and which a proposer is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain, zip_longest

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.alignment.proposer import MAX_RIGHT, MAX_WRONG, ProposalTask
from assizes.judge.injection.families import flags
from assizes.judge.privacy.secret_masking import mask
from assizes.judge.rubrics.guidance import EXCERPT_CHARS, TEXT_CHARS, JudgedExample


def task_of(metric: str, rubric: str, cases: Sequence[LabelledCase], most: int) -> ProposalTask:
    """What a proposer is shown of these cases: errors of both kinds in turn, and some right ones."""
    wrong = _spread([item for item in cases if item.is_wrong], MAX_WRONG)
    right = _spread([item for item in cases if item.judge == item.people], MAX_RIGHT)
    return ProposalTask(metric, rubric, tuple(wrong), tuple(right), most)


def chosen_examples(cases: Sequence[LabelledCase], most: int) -> list[JudgedExample]:
    """Examples for the judge: errors of both kinds, each of another cluster.

    Where the judge errs one way only, cases that it gets right show the other answer. A case whose
    texts speak to a judge is never an example.
    """
    safe = [item for item in cases if item.excerpt.strip() and not flags(item.case)]
    wrong = [item for item in safe if item.is_wrong]
    lacking = {True, False} - {item.people for item in wrong}
    contrast = [item for item in safe if item.judge == item.people and item.people in lacking]
    return [
        JudgedExample(
            case_id=item.case.case_id[:500],
            excerpt=mask(item.excerpt)[:EXCERPT_CHARS],
            answer="pass" if item.people else "fail",
            reason=mask(item.note)[:TEXT_CHARS],
        )
        for item in _spread(wrong + contrast, most)
    ]


def _spread(cases: Sequence[LabelledCase], most: int) -> list[LabelledCase]:
    """Up to `most` cases, passes and fails in turn; one a cluster first, those with a note first."""
    first: list[LabelledCase] = []
    later: list[LabelledCase] = []
    seen: set[str] = set()
    for item in sorted(cases, key=_rank):
        (later if item.cluster in seen else first).append(item)
        seen.add(item.cluster)
    chosen: list[LabelledCase] = []
    for group in (first, later):
        passes = [item for item in group if item.people]
        fails = [item for item in group if not item.people]
        chosen += [item for item in chain(*zip_longest(passes, fails)) if item is not None]
    return chosen[:most]


def _rank(item: LabelledCase) -> tuple[bool, str]:
    # By the hash of the id: as good as random, and the same every time.
    return not item.note, hashlib.sha256(item.case.case_id.encode("utf-8", "replace")).hexdigest()
