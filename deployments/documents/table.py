"""Which command prints which document: `assizes json-schema` and the reference read this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from assizes.deployments.commands.reading.run_list import RUN_FIELDS
from assizes.deployments.documents import written
from assizes.deployments.documents.rows import Schema, list_of, row_schema, strict_object
from assizes.judge.errors import ConfigurationError

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_ANY: Final[Schema] = {}
_TABLE: Final = {"type": "array", "items": {"type": "object"}, "description": "a row each"}
_NUMBER: Final = {"type": ["number", "null"]}


def _model(load: Callable[[], Any]) -> Callable[[], Schema]:
    """The schema of a type as it is printed; the type is loaded when the schema is asked for."""
    return lambda: TypeAdapter(load()).json_schema(mode="serialization")


def _outcome() -> Any:
    from assizes.flows.outcome import RunOutcome

    return RunOutcome


def _outcomes() -> Any:
    from assizes.flows.outcome import RunOutcome

    return RunOutcome | list[RunOutcome]


def _rerun() -> Any:
    return _outcome() | written.RejectedCount


def _series() -> Any:
    from assizes.flows.nightly import SeriesOutcome

    return SeriesOutcome


def _forecast() -> Any:
    from assizes.judge.forecast.run_forecast import RunForecast

    return RunForecast


def _comparison() -> Any:
    from assizes.judge.comparison.compare import RunComparison

    return RunComparison | written.ComparisonWithPairs | _plan_of_pairs()


def _plan_of_pairs() -> Any:
    from assizes.judge.pairs.result import PairwisePlan

    return PairwisePlan


def _ranking() -> Any:
    from assizes.judge.pairs.result import PairwiseResult

    return PairwiseResult | _plan_of_pairs()


def _trends() -> Any:
    from assizes.judge.history.trends import Trends

    return Trends


def _calibration() -> Any:
    from assizes.tasks.runs.calibrations import CalibrationResult

    return CalibrationResult


def _cascade() -> Any:
    from assizes.judge.calibration.cascade_result import CascadeResult

    return CascadeResult


def _judge_tables() -> Any:
    from assizes.tasks.recorded.document import JudgeTables

    return JudgeTables


def _alignment() -> Any:
    from assizes.judge.alignment.result import AlignmentPlan, AlignmentResult

    return AlignmentResult | AlignmentPlan


def _rubric_trial() -> Any:
    from assizes.judge.alignment.rubric_trial import RubricTrial

    return RubricTrial


def _publication() -> Any:
    from assizes.tasks.publishing.publisher import PublishReport

    return PublishReport


def _runs() -> Schema:
    numbers = ("weighted_metrics_score_pct", "cases_pass_rate_pct", "coverage")
    more = dict.fromkeys(numbers, _NUMBER) | {"outcome": {"type": ["string", "null"]}}
    return list_of(row_schema("runs", more, RUN_FIELDS))


def _run() -> Schema:
    """`assizes show`; `config` and `summary` have the fields of the settings and of report.json."""
    objects: Schema = {"type": ["object", "null"]}
    more = dict.fromkeys(("config", "summary", "corrected", "progress"), objects)
    return row_schema("runs", more | {"calibration": list_of(_TEXT)}, RUN_FIELDS)


def _case() -> Schema:
    more = {"tier_scores": {"type": ["object", "null"]}}
    return strict_object(
        {
            "cases": list_of(row_schema("cases", more)),
            "scores": list_of(row_schema("scores")),
            "asks": list_of(row_schema("asks")),
        }
    )


def _explanation() -> Schema:
    scores = row_schema("scores", {"details": {"type": "object"}})
    fields = dict.fromkeys(("run_id", "case_id", "metric", "judge", "prompts"), _TEXT)
    asks = list_of({"type": "object", "required": ["model", "messages", "reply", "exact"]})
    return strict_object({**fields, "repetition": _WHOLE, "scores": list_of(scores), "asks": asks})


def _causes() -> Schema:
    rows = row_schema("causes", {"related": _TABLE})
    return strict_object({"causes": list_of(rows), "failed_cases_without_cause": _WHOLE})


def _rejects() -> Schema:
    return list_of(row_schema("rejects"))


def _table() -> Schema:
    return dict(_TABLE)


def _labels() -> Schema:
    names = ("case_id", "metric", "rater", "role", "note", "at", "label_id", "run_id")
    fields = dict.fromkeys(names, _TEXT) | {"repetition": _WHOLE, "label": {"type": "number"}}
    return list_of({"type": "object", "properties": fields, "required": ["case_id", "label", "at"]})


def _queue() -> Schema:
    return strict_object({"queue_id": _TEXT, "run_id": _TEXT, "cases": _TABLE})


_EDITS: Final = _model(lambda: written.CauseEditsDocument)
_EDITING: Final = ("rename", "describe", "merge", "split", "mute", "unmute", "assign", "history")

DOCUMENTS: Final[Mapping[str, Callable[[], Schema]]] = {
    "demo": _model(_outcomes),
    "run": _model(_outcome),
    "resume": _model(_outcome),
    "retry-rejected": _model(_rerun),
    "plan": _model(_forecast),
    "stop": _model(lambda: written.Stopped),
    "compare": _model(_comparison),
    "rank": _model(_ranking),
    "doctor": _model(lambda: written.Checks),
    "deploy": _model(lambda: written.Deployed),
    "sql": _table,
    "results": _table,
    "nightly": _model(_series),
    "after-deployment": _model(_outcome),
    "backfill": _model(_series),
    "import": _model(lambda: written.Imported),
    "runs": _runs,
    "show": _run,
    "rejects": _rejects,
    "case": _case,
    "explain": _explanation,
    "report": _model(lambda: written.ReportLinks),
    "export": _model(lambda: list[written.ExportedTable]),
    "metrics": _model(lambda: written.MetricList),
    "judges": _model(lambda: list[written.JudgeRow]),
    "calibrate": _model(_calibration),
    "cascade": _model(_cascade),
    "judge-tables": _model(_judge_tables),
    "trends": _model(_trends),
    "store compact": _model(lambda: written.Compacted),
    "store clean": _model(lambda: written.Collected),
    "store forget": _model(lambda: written.Forgotten),
    "store rebuild": _model(lambda: written.Rebuilt),
    "causes show": _causes,
    **{f"causes {word}": _EDITS for word in _EDITING},
    "causes name": _model(lambda: written.NamedCausesDocument),
    "causes codebook": _model(lambda: written.CodebookDocument),
    "causes agreement": _model(lambda: written.CodeAgreementDocument),
    "labels queue": _queue,
    "labels status": _model(lambda: written.LabelStatus),
    "labels list": _labels,
    "labels import": _model(lambda: written.ImportedLabels),
    "labels export": _model(lambda: written.ExportedLabels),
    "labels pull": _model(lambda: written.PulledLabels),
    "publish": _model(_publication),
    "ci": _model(lambda: written.CiDocument),
    "align": _model(_alignment),
    "rubric test": _model(_rubric_trial),
    "promote": _model(lambda: written.PromotionDocument),
    "suite status": _model(lambda: written.SuiteStatusDocument),
    "suite retire": _model(lambda: written.Retired),
}
"""The schema of what each command prints with `--json`."""


def document_schema(command: str) -> Schema:
    """The JSON Schema of what a command prints with `--json`; `command` is without `assizes`.

    Raises:
        ConfigurationError: there is no such command with `--json`.
    """
    if command not in DOCUMENTS:
        raise ConfigurationError.unknown("command", command, DOCUMENTS, "json-schema")
    return {"$schema": DIALECT, "title": f"assizes {command} --json", **DOCUMENTS[command]()}
