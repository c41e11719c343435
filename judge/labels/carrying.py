"""Which labels of people count for a run, and why others do not.

A label is of a conversation, not of a judge. It counts for every run that judged the same
conversation: the same case, repetition and transcript hash. So the labels of a run still count
after another judge has judged its transcripts again, and labels of another version of the agent do
not count, as that version held other conversations.

A queue drew from the cases of one run. Its chances hold for another run only as far as that run
has the same cases, and the samples of two runs are not joined into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from assizes.judge.statistics.prediction_powered import MIN_LABELS

CaseKey = tuple[str, int]
"""The id of a case and the repetition, from 0."""

COVERED: Final = 0.95
"""The share of a run's cases that another run must hold as well for its labels to count, 0..1."""

OTHER_CONVERSATION: Final = "of another conversation: the transcript of the case is another"
OTHER_SCALE: Final = "of another scale: the metric has other levels there"
OTHER_CASES: Final = "of a run that lacks too many of these cases: nobody could draw them there"
OTHER_SAMPLE: Final = "of another run with the same conversations: two samples are not joined"


@dataclass(frozen=True, slots=True)
class LabelledConversations:
    """The labels that one run has of a metric, and what they say of the run that is corrected."""

    run_id: str
    labels: Mapping[CaseKey, str]  # labelled case -> hash of the transcript that people read
    same_scale: bool  # whether the metric has the same levels in both runs
    held: Mapping[CaseKey, str]  # every case of that run -> hash of its transcript
    days: Sequence[date] = field(default=())  # on which the labels were given


@dataclass(frozen=True, slots=True)
class ChosenSource:
    """The run whose labels count for another run, and how many labels do not count, and why."""

    run_id: str | None  # None: no label counts
    labels: frozenset[CaseKey]  # those that count
    cases: frozenset[CaseKey]  # the cases of the corrected run that both runs hold
    left_out: Mapping[str, int]  # reason -> labels


def choose_source(
    run_id: str, held: Mapping[CaseKey, str], sources: Collection[LabelledConversations]
) -> ChosenSource:
    """Choose the labels that count for a run with the cases `held` (case -> transcript hash).

    The run's own labels count where there are at least `MIN_LABELS` of them. Otherwise those of the
    run with the most labels of the same conversations count; of equal numbers, its own.
    """
    left, usable = Counter[str](), dict[str, frozenset[CaseKey]]()
    shared: dict[str, frozenset[CaseKey]] = {}
    for source in sources:
        of_case = [key for key in source.labels if key in held]  # others say nothing of this run
        same = frozenset(key for key in of_case if source.labels[key] == held[key])
        left[OTHER_CONVERSATION] += len(of_case) - len(same)
        if not same:
            continue
        both = frozenset(key for key, digest in held.items() if source.held.get(key) == digest)
        if not source.same_scale:
            left[OTHER_SCALE] += len(same)
        elif len(both) < COVERED * len(held):
            left[OTHER_CASES] += len(same)
        else:
            usable[source.run_id], shared[source.run_id] = same, both
    chosen = _largest(run_id, usable)
    left[OTHER_SAMPLE] += sum(len(same) for name, same in usable.items() if name != chosen)
    return ChosenSource(
        run_id=chosen,
        labels=usable.get(chosen or "", frozenset()),
        cases=shared.get(chosen or "", frozenset()),
        left_out={reason: count for reason, count in sorted(left.items()) if count},
    )


def _largest(run_id: str, usable: Mapping[str, frozenset[CaseKey]]) -> str | None:
    if len(usable.get(run_id, ())) >= MIN_LABELS:
        return run_id
    # By name in the end, so that the same rows always choose the same run.
    ranked = sorted(usable, key=lambda name: (-len(usable[name]), name != run_id, name))
    return ranked[0] if ranked else None


@dataclass(frozen=True, slots=True)
class LabelOrigin:
    """Where the labels behind a corrected number come from, and how old they are."""

    run_id: str  # the run whose conversations people read
    is_own: bool  # whether it is the corrected run itself
    labels: int
    first: date  # day of the first label, UTC
    last: date
    day: date  # that the data of the corrected run are about
    same_judge: bool  # whether the judge of that run is the judge of the corrected run
    agent_versions: tuple[str, ...] = ()  # of the labelled conversations

    @property
    def days_after(self) -> int:
        """Days from the day of the data to the last label; negative for an earlier label."""
        return (self.last - self.day).days

    def sentence(self) -> str:
        """Where the labels come from, such as `40 labels of this run, given on 2026-03-04, ...`."""
        of = "this run" if self.is_own else f"run {self.run_id}"
        when = f"on {self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        age = abs(self.days_after)
        side = "after" if self.days_after >= 0 else "before"
        words = [
            f"{self.labels} labels of {of}, given {when}, "
            f"{age} {'day' if age == 1 else 'days'} {side} the day of the data"
        ]
        if not self.is_own:
            judge = "by the same judge" if self.same_judge else "by another judge"
            words.append(f"the same conversations were judged there {judge}")
        if self.agent_versions:
            words.append(f"agent version {', '.join(self.agent_versions)}")
        return "; ".join(words)
