"""The part of a report about the numbers that labels of people correct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.gates import VERDICT
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.reports.formatting import clean_line, name_of
from assizes.tasks.reports.schema.corrected import Corrected, CorrectedLine, CorrectedSlice
from assizes.tasks.runs.corrected import LabelledNumber, span

MAX_SLICES: Final = 40  # slices of a number that are shown, at most
LINE_CHARS: Final = 1000


def corrected_part(
    numbers: Sequence[LabelledNumber],
    summary: RunSummary | None,
    comparison: RunComparison | None = None,
) -> Corrected | None:
    """The corrected numbers as a part of the report; `None` where there is no label for them."""
    if not numbers:
        return None
    compared = None if comparison is None else comparison.corrected
    sentences = [_gate_sentence(numbers, summary), compared and compared.sentence]
    first = " ".join(sentence for sentence in sentences if sentence)
    changes = () if compared is None else compared.changes
    return Corrected(
        first=clean_line(first, LINE_CHARS) if first else None,
        numbers=[_line(number) for number in numbers],
        changes=[clean_line(change.line, LINE_CHARS) for change in changes],
        fell_back=None if compared is None else compared.fell_back,
    )


def _gate_sentence(numbers: Sequence[LabelledNumber], summary: RunSummary | None) -> str | None:
    """What a corrected pass rate says against the gate of the run, if its whole interval does."""
    pass_rate = next((number for number in numbers if number.number.metric == VERDICT), None)
    now = None if pass_rate is None else pass_rate.number.estimate
    if pass_rate is None or now is None or summary is None or summary.cases_passed is None:
        return None
    needed = summary.cases_pass_threshold / 100
    if summary.cases_passed and now.high < needed:
        word = "below"
    elif not summary.cases_passed and now.low >= needed:
        word = "not below"
    else:
        return None
    raw = pass_rate.number.raw or 0.0
    return (
        f"Labels of people say something else than the judge: corrected by {now.labels} labels the "
        f"pass rate is {span(now)}, {word} the {100 * needed:g} % that the run must reach; the judge "
        f"says {100 * raw:.1f} %."
    )


def _line(labelled: LabelledNumber) -> CorrectedLine:
    number, now, origin = labelled.number, labelled.number.estimate, labelled.origin
    return CorrectedLine(
        name=name_of(labelled.name),
        metric=name_of(number.metric),
        raw=number.raw,
        value=None if now is None else round(now.value, 9),
        low=None if now is None else round(now.low, 9),
        high=None if now is None else round(now.high, 9),
        labels=number.labels,
        labelled_run=None if origin is None else origin.run_id,
        days_after=None if origin is None else origin.days_after,
        left_out=dict(number.left_out),
        check_agrees=None if labelled.check is None else labelled.check.agrees,
        lines=[clean_line(line, LINE_CHARS) for line in labelled.lines()],
        slices=[
            CorrectedSlice(
                name=name_of(name),
                value=round(estimate.value, 9),
                low=round(estimate.low, 9),
                high=round(estimate.high, 9),
                labels=estimate.labels,
                shown=span(estimate),
            )
            for name, estimate in sorted(number.slices.items())[:MAX_SLICES]
            if estimate != now  # a slice of all cases says nothing of its own
        ],
    )
