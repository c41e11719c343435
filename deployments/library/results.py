"""What `assizes.evaluate` returns: scores as frames, a summary, single cases and comparisons."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import polars as pl
from pydantic import ValidationError

from assizes.deployments.commands.case import explanation_lines
from assizes.deployments.commands.output import judge_line
from assizes.deployments.library.blocks import DisplayBlock, block_html, block_text
from assizes.deployments.library.views import EvaluationComparison, EvaluationSummary
from assizes.judge.case import Case
from assizes.judge.comparison.compare import compare
from assizes.judge.config.gates import STORED, ComparisonConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, UnknownCase
from assizes.judge.summary.wide_table import wide_frame
from assizes.tasks.reports.data.case_rows import explanation
from assizes.tasks.reports.data.explain_page import metric_explanation
from assizes.tasks.reports.formatting import plural
from assizes.tasks.runs.corrected_comparison import comparison_with_labels
from assizes.tasks.runs.corrected_rows import run_metrics_with_corrections
from assizes.tasks.runs.stored_cases import StoredExecution, reread_case, stored_executions
from assizes.tasks.runs.stored_comparison import compare_with_bridges, run_data
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
from assizes.tasks.store import RunRecord, open_store

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome

Table: TypeAlias = Literal["scores", "cases", "asks", "rejects", "run_metrics"]
"""The tables of a run; docs/rows.md describes their columns."""

FAILED_CASES: Final = 10
"""Most failed cases that the form of a result names."""

SHOWN_IDS: Final = 10
"""Most ids of cases that an error names."""

_FIRST_COLUMNS: Final = (
    *("case_id", "repetition", "metric", "value", "raw", "weight", "failure_code"),
)
_LAST_COLUMNS: Final = ("label", "passed", "status", "explanation")
"""Columns of a frame of scores that come first and last: a printed frame shows its ends."""


class Evaluation:
    """The result of an evaluation; its rows are in a store, or in a file that lives as long as it.

    Attributes:
        run_id: the id of the run, under which a store keeps it.
        conclusion: how the run ended: `Passed`, `GateFailed`, `Incomplete`, `OverBudget` and so on.
        reasons: why it did not pass, and what can be done.
    """

    def __init__(
        self,
        store: StoreConfig,
        run_id: str,
        outcome: RunOutcome | None = None,
        scratch: TemporaryFolder | None = None,
    ) -> None:
        """Name the run of a store; `scratch` is deleted with the result."""
        self._store = store
        self.run_id = run_id
        self.conclusion: str = outcome.conclusion if outcome else self.summary.outcome.capitalize()
        self.reasons: Sequence[str] = tuple(outcome.reasons) if outcome else ()
        if scratch is not None:
            weakref.finalize(self, scratch.close)

    @cached_property
    def record(self) -> RunRecord:
        """The row of table `runs`: configuration, times, status, judge model."""
        with open_store(self._store) as store:
            return store.run(self.run_id)

    @cached_property
    def summary(self) -> EvaluationSummary:
        """The numbers of the run: its metrics, gates, coverage, counts and costs."""
        if self.record.summary is None:
            raise ConfigurationError(
                f"run {self.run_id!r} has not ended; `assizes resume {self.run_id}` goes on with it"
            )
        return EvaluationSummary.model_validate(self.record.summary)

    def to_polars(self, table: Table = "scores", *, parts: bool = False) -> pl.DataFrame:
        """The rows of a table of the run; without an argument a score for each case and metric.

        A score has an `explanation`: the judge's reason, or why there is no score. With `parts`,
        the scores of parts (outcomes, chunks, aspects) are among the rows.

        Raises:
            ConfigurationError: there is no such table.
        """
        known = get_args(Table)
        if table not in known:
            raise ConfigurationError.unknown("table", table, known, "to_polars")
        with open_store(self._store) as store:
            if table == "run_metrics":
                return run_metrics_with_corrections(store, self.run_id)
            rows = store.table(self.run_id, table)
        if table != "scores":
            return rows
        rows = rows if parts else rows.filter(pl.col("part") == "")
        texts = [explanation(row, json.loads(row["details"])) for row in rows.to_dicts()]
        rows = rows.with_columns(pl.Series("explanation", texts, dtype=pl.String))
        others = pl.exclude(*_FIRST_COLUMNS, *_LAST_COLUMNS)
        return rows.select(*_FIRST_COLUMNS, others, *_LAST_COLUMNS)

    def to_pandas(self, table: Table = "scores", *, parts: bool = False) -> Any:
        """As `to_polars`, as a pandas frame; what is not known is missing (`pandas.NA`), never 0.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        return pandas_frame(self.to_polars(table, parts=parts))

    def wide(self) -> pl.DataFrame:
        """The wide table: a row for each case, a column for each published assessment and metric.

        It is the table of `assizes export RUN --wide FILE`; docs/rows.md names its columns.
        """
        with open_store(self._store) as store:
            cases, scores = (store.table(self.run_id, name) for name in ("cases", "scores"))
        return wide_frame(cases, scores)

    @property
    def case_ids(self) -> list[str]:
        """The ids of the cases, sorted."""
        return list(self.to_polars("cases")["case_id"].unique().sort())

    def case(self, case_id: str | int, repetition: int = 0) -> EvaluatedCase:
        """One case: its verdict, its scores, its conversation, and the reasons for a score.

        Raises:
            UnknownCase: the run has no such case.
        """
        with open_store(self._store) as store:
            try:
                executions = stored_executions(store, self.run_id, str(case_id), None)
            except UnknownCase:
                ids = store.table(self.run_id, "cases")["case_id"].unique().sort()
                shown = ", ".join(
                    [*ids.head(SHOWN_IDS), *(["..."] if len(ids) > SHOWN_IDS else [])]
                )
                raise UnknownCase(
                    f"there is no case {str(case_id)!r}; case_ids has them all: {shown}"
                ) from None
        for execution in executions:
            if execution.case["repetition"] == repetition:
                return EvaluatedCase(self, execution)
        known = [str(execution.case["repetition"]) for execution in executions]
        raise ConfigurationError.unknown(
            "repetition", str(repetition), known, f"case {str(case_id)!r}"
        )

    def compare(
        self, candidate: Evaluation, thresholds: Mapping[str, Any] | None = None
    ) -> EvaluationComparison:
        """This result as the baseline of another: what got worse, and how sure that is.

        `thresholds` are settings of [comparison], such as `max_pass_rate_drop` or `margin`; by
        default those that the candidate was configured with. Where people labelled cases of the runs
        in their store, `corrected` is the comparison by their labels; `{"verdict": "corrected"}` lets
        it decide. The labels of two different stores correct nothing.

        Raises:
            NotComparable: a run is not complete.
            ConfigurationError: a threshold cannot be used.
        """
        configured = ComparisonConfig.model_validate(
            candidate.record.config["comparison"], context=STORED
        )
        limits = _with_thresholds(configured, thresholds or {})
        with ExitStack() as opened:
            store = opened.enter_context(open_store(self._store))
            if candidate._store == self._store:
                before, after = (run_data(store, run.run_id) for run in (self, candidate))
                judged = compare_with_bridges(store, before, after, limits)
                comparison = comparison_with_labels(store, judged, limits)
            else:
                other = opened.enter_context(open_store(candidate._store))
                before = run_data(store, self.run_id)
                comparison = compare(before, run_data(other, candidate.run_id), limits)
        return EvaluationComparison.from_comparison(comparison)

    def blocks(self) -> list[DisplayBlock]:
        """How the run ended, its summary, and what to look at next."""
        cases = self.to_polars("cases")
        failed = cases.filter(~pl.col("passed").fill_null(value=True)).sort(
            "overall_score", "case_id"
        )
        ids = failed["case_id"].unique(maintain_order=True)
        lines = []
        if len(ids):
            more = f" and {len(ids) - FAILED_CASES} more" if len(ids) > FAILED_CASES else ""
            names = ", ".join(ids.head(FAILED_CASES))
            lines.append(f"cases that failed: {names}{more}; .case({ids[0]!r}) shows why")
        elif cases.height and not cases["passed"].count():
            lines.append(f".case({cases['case_id'].min()!r}) shows why a case has no verdict")
        if rejected := self.summary.counts.get("quarantined", 0):
            lines.append(
                f"{plural(rejected, 'record')} could not be read; .to_polars('rejects') says which and why"
            )
        return [
            DisplayBlock(
                f"{self.conclusion}: {self.run_id}, {plural(cases.height, 'case')}", self.reasons
            ),
            DisplayBlock(lines=[judge_line(self.record.judge_model)]),
            *self.summary.blocks(),
            DisplayBlock(lines=lines),
        ]

    def __repr__(self) -> str:
        return block_text(self.blocks())

    def _repr_html_(self) -> str:
        return block_html(self.blocks())


class EvaluatedCase:
    """One execution of a case in an evaluation: the row of table `cases`, and its scores."""

    def __init__(self, evaluation: Evaluation, execution: StoredExecution) -> None:
        """Name an execution of a case; the result keeps its transcript readable."""
        self._evaluation = evaluation
        self._execution = execution
        self.row: Mapping[str, Any] = execution.case
        self.case_id: str = self.row["case_id"]
        self.passed: bool | None = self.row["passed"]  # `None`: there is no verdict
        self.overall_score: float | None = self.row["overall_score"]  # 0..100

    @property
    def scores(self) -> list[dict[str, Any]]:
        """The rows of table `scores` about this case, those of parts included."""
        return self._execution.scores

    def conversation(self) -> Case:
        """The case as its judges saw it, read again from its transcript.

        Raises:
            DataError: the transcript is gone or has changed since.
        """
        return reread_case(self._evaluation.record, self.row)

    def explain(self, metric: str) -> MetricExplanation:
        """Everything behind the score of a metric: each prompt, its reply, cost and versions.

        Raises:
            ConfigurationError: the case has no such metric.
        """
        return MetricExplanation(
            metric_explanation(self._evaluation.record, self._execution, metric)
        )

    def blocks(self) -> list[DisplayBlock]:
        """The verdict, and a row for each metric with its reason."""
        headlines = [score for score in self.scores if not score["part"]]
        rows = [
            (
                score["metric"],
                score["raw"],
                score["label"] or score["status"],
                explanation(score, json.loads(score["details"])) or None,
            )
            for score in headlines
        ]
        heading = f"{self.case_id} (repetition {self.row['repetition']}): {self.row['summary']}"
        lines = [f"error: {self.row['error']}"] if self.row["error"] else []
        return [DisplayBlock(heading, lines, ("metric", "#score", "label", "why"), rows)]

    def __repr__(self) -> str:
        return block_text(self.blocks())

    def _repr_html_(self) -> str:
        return block_html(self.blocks())


class MetricExplanation:
    """Why a metric of a case got its score; `data` is the JSON of `assizes explain --json`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Take the data of `metric_explanation`."""
        self.data = data

    @property
    def prompts(self) -> list[str]:
        """The text of each prompt, one a question; empty where it cannot be rendered again."""
        return [
            "\n\n".join(message["content"] for message in ask["messages"])
            for ask in self.data["asks"]
            if ask["messages"]
        ]

    @property
    def replies(self) -> list[str | None]:
        """The text of each reply as it came; `None` where there was none."""
        return [ask["reply"] for ask in self.data["asks"]]

    def __repr__(self) -> str:
        return "\n".join(explanation_lines(self.data))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre style='white-space:pre-wrap'>{escape(repr(self))}</pre>"


def pandas_frame(frame: pl.DataFrame) -> Any:
    """A Polars frame as a pandas frame with types that know missing values; needs no pyarrow.

    Raises:
        ConfigurationError: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")  # no dependency of ours
    except ModuleNotFoundError:
        raise ConfigurationError(
            "pandas is not installed: `pip install pandas`, or use to_polars()"
        ) from None
    columns = {}
    for column in frame.iter_columns():
        values = column.to_list()
        columns[column.name] = pandas.Series(values, dtype=_pandas_type(column.dtype))
    return pandas.DataFrame(columns)


def _pandas_type(kind: pl.DataType) -> str:
    if kind == pl.Boolean:
        return "boolean"
    if kind.is_float():
        return "Float64"
    if kind.is_integer():
        return "Int64"
    if isinstance(kind, pl.Datetime):
        return "datetime64[ns, UTC]"
    return "object" if kind != pl.String else "string"


def _with_thresholds(
    configured: ComparisonConfig, thresholds: Mapping[str, Any]
) -> ComparisonConfig:
    try:
        return ComparisonConfig.model_validate({**configured.model_dump(), **thresholds})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        known = ", ".join(ComparisonConfig.model_fields)
        raise ConfigurationError(f"thresholds: {name}: {fault['msg']}; known: {known}") from None
