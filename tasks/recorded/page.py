"""The judge tables as a Markdown page: what judges are worth, and published figures beside ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from assizes.judge.calibration.measures import Estimate
from assizes.tasks.recorded.document import JudgeTables, Missing
from assizes.tasks.recorded.published import PublishedFigure
from assizes.tasks.recorded.table import WorthRow
from assizes.tasks.recorded.values import ALL

INTRODUCTION: Final = """\
# What judges are worth

This page shows how well recorded judges agree with people, set by set. The judgements were recorded by others. `assizes judge-tables` reads them
with the readers, parsers and calibration of the product, and needs no key. The page is generated: `make judge-tables` writes it.

The sets are no part of the package. The environment variable `ASSIZES_DATA` names the folder that holds them; by default it is `../shared/data`.
`assizes judge-tables --model MODEL` also asks a model of yours about the same items, within a budget, and adds its rows.
[Rubrics of others](public-rubrics.md) holds the texts of the product's judges beside public ones.

How to read the tables:

- Every interval is a 95 % interval from resampled clusters, such as queries, tasks or prompts. With fewer than ten clusters there is none.
- `kappa` is Cohen's kappa. For more than two ordered grades it is the quadratic one, and the published kappa of plain grades stands below.
- The failing class is what people failed. A false positive is a true pass that the judge calls a fail, and a false negative is the opposite.
- `unread` counts answers outside the vocabulary, and ties where people name a winner. They enter no measure of agreement.
- `people` is the mean kappa of the pairs of people. No more can be expected of a judge. It is empty where each item has one label.
- `flips` is the share of pairs whose winner changes when the two answers change places.
- `offline/lexical` is the floor: the text rules of the product, which use no language model. A judge near its row is worth little.
"""

CHART_LINE: Final = "![Kappa of every judge with its interval](images/judge-tables.svg)"

WHY: Final[Mapping[str, Sequence[str]]] = {
    "LLMJudge": (
        "The published kappa takes four unordered grades; the table above cites the quadratic kappa, which counts a miss by one grade as smaller.",
    ),
    "PandaLM": (
        "25 replies of gpt-3.5-turbo name no winner. They are unread here, and the kappa is that of the other 974.",
    ),
    "tau2 airline": (
        "The authors count the word `satisfied` as a pass. Their prompt names no allowed words, so the table above has it among the 27 unread answers.",
        "Their agreements of the other three prompts are the same in both.",
    ),
    "tau3 truth": (
        "The kappas of the four judges count every word but `pass` as a fail, as their source does.",
        "Against the corrected truth no prompt is better than chance. The judged runs are 28, so the intervals are wide.",
    ),
    "DevAI": (
        "The source calls an unmet requirement that the judge calls met a false positive. In the table above this is a false negative, since the failing class is `not met`.",
        "The work itself is not in the set. `answer_criteria` reads a report that we wrote from what people found, with the parts `What is done` and `What is not done`.",
        "So its row says whether the judge reads a report, and nothing about looking at work. The text rules count words and cannot tell the two parts apart.",
    ),
    "XSTest": (
        "Fleiss' kappa is alpha without its correction for a small number of units; here they differ by less than .0001.",
        "Only one of 600 harmful requests was answered, so no judge of safety can reach a kappa here. The false positive rate is what counts.",
        "For the same reason the two people reach a kappa of .50 only.",
        "`relevance_to_query` is asked whether a response to a harmless request addresses it. People call a partial refusal a fail; its text says what it does with one.",
    ),
    "ExpertQA": (
        "No judge is recorded in this set, so all its rows are judges of the product.",
        "The reference of `correctness` is the whole answer as the expert revised it, which the same expert labelled: a weak reference for one claim.",
    ),
    "LLMBar": (
        "The published accuracy counts an unread reply as wrong; the table above leaves it out and counts it as unread. Three evaluators differ by this.",
        "The published kappa of orders counts an unread reply as the second output; the kappas to the label in the set count it as a grade of its own.",
        "`relevance_to_query` and `answer_criteria` rate each output alone, so they have no order to flip. Pairs with equal ratings name no winner and are unread.",
        "The criteria of `answer_criteria` are the instruction itself, which the judge splits into points.",
        "`pairwise` is asked the question `overall` in both orders, as `assizes compare --pairwise` asks it. It may answer with a tie, which names no winner and is unread.",
    ),
}
"""Why ours and the published figures differ where they do, by set."""

_HEAD: Final = (
    "| judge | items | unread | agreement | kappa | alpha | F1 of fails | false pos. | false neg. | people | flips |",
    "| --- " * 11 + "|",
)
_BY: Final = {"authors": "the authors", "set": "the description of the set"}


def markdown_page(tables: JudgeTables) -> str:
    """The whole page; it ends with a line break."""
    parts = [INTRODUCTION, CHART_LINE + "\n"]
    for dataset in tables.datasets:
        rows = [row for row in tables.rows if row.dataset == dataset]
        figures = [figure for figure in tables.figures if figure.dataset == dataset]
        parts.append("\n".join(_section(dataset, rows, figures)) + "\n")
    parts.append(_list("Figures that are not reproducible", tables.not_reproduced))
    parts.append(_list("Judges that were not asked", tables.not_asked))
    return "\n".join(parts)


def estimate_text(estimate: Estimate | None) -> str:
    """`.71 [.62, .79]`; empty where the measure does not apply, `-` where it is not defined."""
    if estimate is None:
        return ""
    if estimate.value is None:
        return "-"
    bounds = ""
    if estimate.low is not None and estimate.high is not None:
        bounds = f" [{_bare(estimate.low)}, {_bare(estimate.high)}]"
    return f"{_bare(estimate.value)}{bounds}"


def _bare(value: float) -> str:
    text = f"{round(value, 2) + 0.0:.2f}"  # no -0.00
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _section(
    dataset: str, rows: Sequence[WorthRow], figures: Sequence[PublishedFigure]
) -> Iterator[str]:
    yield f"## {dataset}"
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        clusters = max(row.clusters for row in own)
        yield f"\nAsked: {task}. Clusters: {clusters:,}.\n"
        yield from _HEAD
        yield from map(_row, own)
    equal = sum(figure.is_equal for figure in figures)
    yield f"\nPublished figures that come out equal at the printed decimals: {equal} of {len(figures)}."
    yield from _differences(figures)
    yield from (f"{why}" for why in WHY.get(dataset, ()))
    yield from _authors(figures)


def _row(row: WorthRow) -> str:
    part = "" if row.part == ALL else f", {row.part}"
    people = "" if row.ceiling_kappa is None else _bare(row.ceiling_kappa)
    cells = (
        f"{row.judge}{part}",
        f"{row.items:,}",
        f"{row.unread:,}",
        *map(
            estimate_text,
            (
                *(row.accuracy, row.cited_kappa, row.alpha),
                *(row.failing_f1, row.false_positive_rate, row.false_negative_rate),
            ),
        ),
        people,
        estimate_text(row.flip_rate),
    )
    return f"| {' | '.join(cells)} |"


def _differences(figures: Sequence[PublishedFigure]) -> Iterator[str]:
    for figure in figures:
        if not figure.is_equal:
            by = _BY[figure.by]
            yield f"Different: {figure.figure}: {figure.published} by {by}, {figure.ours} by us."


def _authors(figures: Sequence[PublishedFigure]) -> Iterator[str]:
    """The figures that the authors printed, a line for each subject, published and ours."""
    subjects = defaultdict[str, list[PublishedFigure]](list)
    for figure in figures:
        if figure.by == "authors":
            subject, _, measure = figure.figure.rpartition(": ")
            subjects[subject or measure].append(figure)
    if not subjects:
        return
    yield "\n| printed by the authors | published | ours |\n| --- | --- | --- |"
    for subject, own in subjects.items():
        names = [figure.figure.rpartition(": ")[2] for figure in own]
        published, ours = (
            "; ".join(
                f"{name} {text}" if name != subject else text
                for name, text in zip(names, texts, strict=True)
            )
            for texts in ([figure.published for figure in own], [figure.ours for figure in own])
        )
        yield f"| {subject} | {published} | {ours} |"


def _list(title: str, gaps: Sequence[Missing]) -> str:
    lines = [f"- {gap.dataset}: {gap.what}. The reason: {gap.reason}." for gap in gaps]
    return "\n".join([f"## {title}", "", *lines]) + "\n"
