"""What a reader of a CI job should know of single cases: what turned, what fails, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from assizes.judge.comparison.cases import CaseComparison
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.verdicts.executions import IS_LOW, collect_rows, states
from assizes.tasks.ci.places import CasePlace, CasePlaces
from assizes.tasks.reports.data.read_first import FLIPS
from assizes.tasks.reports.formatting import clean_line
from assizes.tasks.store import RunRecord, Store

MAX_FINDINGS: Final = 1000
"""The most cases that are found; how many there are in all is counted."""

MAX_REASONS: Final = 3
"""The most reasons of one case."""

REASON_CHARS: Final = 500
"""The most characters of one reason."""

ID_CHARS: Final = 200
"""The most characters of the id of a case that are shown."""

Kind = Literal["regressed", "failed", "unjudged", "fell", "still_fails"]
"""What became of a case. `regressed`: it passed in the base run and does not any more; `failed`:
it does not pass, and no base run says more; `unjudged`: it could not be judged; `fell`: its score
fell, and its verdict is as before; `still_fails`: it did not pass in the base run either."""

_ORDER: Final[tuple[Kind, ...]] = ("regressed", "failed", "unjudged", "fell", "still_fails")

TITLES: Final[Mapping[Kind, str]] = {
    "regressed": "regressed",
    "failed": "failed",
    "unjudged": "could not be judged",
    "fell": "scored lower",
    "still_fails": "still fails",
}
"""How a finding is called in a few words."""


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """A case that a reader should look at. Its texts are foreign: each medium escapes them."""

    case_id: str  # cut for display
    repetition: int
    kind: Kind
    change: str  # both verdicts, or both scores; empty without a base run
    reasons: tuple[str, ...]  # the judges', each on one line; never empty
    place: CasePlace | None  # `None`: not in the repository

    @property
    def title(self) -> str:
        """The case and what became of it, on one line."""
        number = f" #{self.repetition}" if self.repetition else ""
        change = f" ({self.change})" if self.change else ""
        return f"{self.case_id}{number} {TITLES[self.kind]}{change}"

    @property
    def why(self) -> str:
        """The reasons as one line."""
        return "; ".join(self.reasons)


@dataclass(frozen=True, slots=True)
class CaseFindings:
    """The findings of a run, the most urgent first, and the cases that got better."""

    shown: tuple[CaseFinding, ...]
    total: int  # of findings, shown or not
    improved: tuple[str, ...]  # ids of the cases that pass again, cut for display
    improved_total: int

    def of(self, *kinds: Kind) -> list[CaseFinding]:
        """The shown findings of some kinds."""
        return [finding for finding in self.shown if finding.kind in kinds]


def case_findings(
    store: Store, record: RunRecord, comparison: RunComparison | None, places: CasePlaces
) -> CaseFindings:
    """The findings of a run that has ended."""
    compared = {
        case.test_case_id: case for case in (comparison.test_case_comparisons if comparison else ())
    }
    fell = [case for case, change in compared.items() if _fell(change)]
    wanted = pl.col("state").is_in(["failed", "pass_flagged", "undecided", "errored"])
    cases = states(store.scan(record.run_id, "cases"))
    rows = cases.filter(wanted | pl.col("case_id").is_in(fell))
    columns = ("case_id", "repetition", "transcript_uri", "position", "summary", "error", "state")
    chosen = collect_rows(rows.select(columns)).to_dicts()
    kinds = {(row["case_id"], row["repetition"]): _kind(row, compared) for row in chosen}
    ordered = sorted(
        chosen,
        key=lambda row: (
            _ORDER.index(kinds[row["case_id"], row["repetition"]]),
            row["case_id"],
            row["repetition"],
        ),
    )
    first = ordered[:MAX_FINDINGS]
    reasons = _reasons(store, record, [row["case_id"] for row in first], compared)
    better = [case for case, change in compared.items() if _is_mended(change)]
    return CaseFindings(
        shown=tuple(
            CaseFinding(
                case_id=clean_line(row["case_id"], ID_CHARS),
                repetition=row["repetition"],
                kind=kinds[row["case_id"], row["repetition"]],
                change=_change(compared.get(row["case_id"])),
                reasons=_texts(row, reasons.get((row["case_id"], row["repetition"]), ())),
                place=places.of(row["case_id"], row["transcript_uri"], row["position"]),
            )
            for row in first
        ),
        total=len(ordered),
        improved=tuple(clean_line(case, ID_CHARS) for case in sorted(better)),
        improved_total=comparison.case_counts.flipped_improvements if comparison else 0,
    )


def _kind(row: Mapping[str, Any], compared: Mapping[str, CaseComparison]) -> Kind:
    if row["state"] == "errored":
        return "unjudged"
    change = compared.get(row["case_id"])
    if row["state"] == "passed":
        return "fell"
    if change is None or (row["state"] == "failed" and change.baseline_passed is None):
        return "failed"
    if change.baseline_passed:  # a flagged pass and an undecided case count as not passed
        return "regressed" if row["state"] == "failed" else "failed"
    return "still_fails"


def _fell(change: CaseComparison) -> bool:
    """Whether a case got worse and its verdict did not turn."""
    return change.status == "regression" and change.baseline_passed == change.candidate_passed


def _is_mended(change: CaseComparison) -> bool:
    return change.baseline_passed is False and change.candidate_passed is True


def _change(change: CaseComparison | None) -> str:
    if change is None:
        return ""
    flip = FLIPS.get((change.baseline_passed, change.candidate_passed), "")
    if not _fell(change) or change.baseline_score is None or change.candidate_score is None:
        return flip
    return f"score {change.baseline_score:g} → {change.candidate_score:g}"


def _texts(row: Mapping[str, Any], reasons: Sequence[str]) -> tuple[str, ...]:
    """The reasons of a case; without any, what its row says."""
    if row["state"] == "errored":
        return (clean_line(row["error"] or "no judge could be had", REASON_CHARS),)
    own = tuple(reasons[:MAX_REASONS])
    return own or (clean_line(row["summary"] or "it did not pass", REASON_CHARS),)


def _reasons(
    store: Store,
    record: RunRecord,
    case_ids: Sequence[str],
    compared: Mapping[str, CaseComparison],
) -> dict[tuple[str, int], list[str]]:
    """What the judges say about the low scores of some cases: what fell since the base run first."""
    of_outcome = pl.col("part").str.starts_with("outcome:") & (pl.col("passed") == pl.lit(False))
    columns = ("case_id", "repetition", "judge", "metric", "part", "reason", "weight")
    scores = store.rows_of_cases(record.run_id, "scores", sorted(set(case_ids)))
    low = scores.filter((IS_LOW | of_outcome) & (pl.col("reason") != "")).select(columns)
    by_case: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in low.iter_rows(named=True):
        fallen = set(_fallen(compared.get(row["case_id"])))
        urgency = (row["metric"] not in fallen, not row["part"], -(row["weight"] or 0.0))
        text = f"{row['metric']}: {row['reason']}"
        rank = (*urgency, row["judge"], row["metric"], row["part"], text)
        by_case[row["case_id"], row["repetition"]].append(rank)
    return {
        key: [clean_line(rank[-1], REASON_CHARS) for rank in sorted(ranks)]
        for key, ranks in by_case.items()
    }


def _fallen(change: CaseComparison | None) -> Iterator[str]:
    for delta in change.metric_deltas if change else ():
        if delta.status == "regression":
            yield delta.metric
