"""The parameters of the tools, described for a model that has never seen this program."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.web.sessions import NAME_CHARS
from assizes.judge.config.gates import VERDICT

_RUN: Final = (
    "id of a run or its beginning, `latest`, NAME (the newest of it), NAME~1 (the one before), "
    "NAME@2026-11-20"
)
RunName = Annotated[str, Field(min_length=1, max_length=160, description=_RUN)]
CaseName = Annotated[
    str, Field(min_length=1, max_length=512, description="id of a case, as list_cases gives it")
]
MetricName = Annotated[
    str,
    Field(min_length=1, max_length=200, description="metric, as read_run or open_case names it"),
]
Cursor = Annotated[
    str,
    Field(
        pattern=r"^\d{0,9}$", description="where to go on: as the answer before said; empty: begin"
    ),
]
Repetition = Annotated[
    int, Field(ge=0, le=2**31 - 1, description="which repetition of the case, from 0")
]
Name = Annotated[str | None, Field(max_length=160, description="name that runs share")]
Verdict = Literal[
    "passed",
    "failed",
    "regression",
    "inconclusive",
    "undecided",
    "not_comparable",
    "incomplete",
]
Word = Annotated[str | None, Field(max_length=512)]


class ToolParameters(BaseModel):
    """The parameters of a tool; a name that it does not have is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ListRuns(ToolParameters):
    """Which runs are listed."""

    name: Name = None
    trigger: Literal["nightly", "deployment", "backfill", "adhoc"] | None = Field(
        default=None, description="what started the run"
    )
    status: Literal["running", "interrupted", "complete", "incomplete", "failed"] | None = Field(
        default=None, description="whether the run has ended; says nothing about quality"
    )
    verdict: Verdict | None = Field(
        default=None, description="what the run concluded; regression: worse than before"
    )
    limit: int = Field(default=10, ge=1, le=50, description="runs in one answer, at most")
    cursor: Cursor = ""


class ReadRun(ToolParameters):
    """Which run is read."""

    run: RunName
    cursor: Cursor = ""


class CompareRuns(ToolParameters):
    """Which two runs are compared."""

    candidate: RunName
    baseline: RunName | None = Field(
        default=None, description=f"{_RUN}; left out: the run it was compared with when it ended"
    )
    cases: Literal["worse", "better", "changed"] = Field(
        default="worse", description="which cases are listed, the largest change first"
    )
    cursor: Cursor = ""


class ListCases(ToolParameters):
    """Which cases of a run are listed."""

    run: RunName
    passed: bool | None = Field(default=None, description="the verdict of the judge")
    status: Literal["judged", "errored", "skipped"] | None = Field(
        default=None, description="errored: a score that is needed could not be had"
    )
    metric: Word = Field(
        default=None, description="only cases whose score of it is below acceptable"
    )
    root_cause: Word = Field(default=None, description="metric to which the failure is traced")
    failure_code: Word = Field(default=None, description="only cases with a score that has it")
    agent_version: Word = None
    tool: Word = Field(default=None, description="only cases in which the agent called it")
    tag: Word = Field(default=None, description="`name=value`, or a name")
    sort: Literal["overall_score", "-overall_score", "case_id", "-agent_latency_ms"] = Field(
        default="overall_score", description="a - in front turns the order round"
    )
    limit: int = Field(default=10, ge=1, le=50, description="cases in one answer, at most")
    cursor: Cursor = ""


class OpenCase(ToolParameters):
    """Which case is opened."""

    run: RunName
    case: CaseName
    repetition: Repetition = 0
    turn: int | None = Field(
        default=None, ge=0, le=2**31 - 1, description="only this turn (from 0), less shortened"
    )
    cursor: Cursor = ""


class ExplainScore(ToolParameters):
    """Which score is explained."""

    run: RunName
    case: CaseName
    metric: MetricName
    repetition: Repetition = 0
    prompts: bool = Field(default=False, description="also the prompts, shortened; they are long")
    cursor: Cursor = ""


class ListCauses(ToolParameters):
    """Whose causes are listed."""

    run: RunName
    cause: Word = Field(default=None, description="id or name: list the cases of this cause")
    cursor: Cursor = ""


class ReadTrends(ToolParameters):
    """Which series are read."""

    name: Name = None
    series: Word = Field(default=None, description="give each run of this series, as pass_rate")
    last: int | None = Field(default=None, ge=1, le=1000, description="only so many newest runs")
    cursor: Cursor = ""


class ListMetrics(ToolParameters):
    """Which metrics are listed."""

    cursor: Cursor = ""


class PlanRun(ToolParameters):
    """Which run is forecast, over the configuration with which the server was started."""

    limit: int | None = Field(default=None, ge=1, le=10_000_000, description="cases, at most")
    day: date | None = Field(default=None, description="day of date placeholders, as 2026-11-20")


class StartRun(PlanRun):
    """Which run is started."""

    budget_usd: float = Field(
        ge=0, le=1e6, description="US dollars that model calls of this run may cost, at most"
    )
    confirm: str | None = Field(
        default=None, max_length=160, description="run id of the forecast; left out: forecast only"
    )


class AddLabel(ToolParameters):
    """What a person decided about a case."""

    run: RunName
    case: CaseName
    repetition: Repetition = 0
    metric: MetricName = VERDICT
    value: float = Field(
        ge=0, le=1, description="1 pass, 0 fail; of another metric a level as in its value, 0..1"
    )
    rater: str = Field(
        min_length=1, max_length=NAME_CHARS, description="the person who decided; never yourself"
    )
    note: str = Field(default="", max_length=4000, description="the reason, in the person's words")


class PromoteCases(ToolParameters):
    """Which cases become cases of a suite."""

    run: RunName
    suite: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="its name; a new one is made"
    )
    cases: list[CaseName] = Field(default_factory=list, max_length=100, description="ids of cases")
    cause: Word = Field(default=None, description="every case that shows this cause")
    dry_run: bool = Field(default=False, description="write nothing, say what would be written")


def parameters_schema(model: type[ToolParameters]) -> dict[str, Any]:
    """The JSON Schema of the parameters, without what a model need not read."""
    schema = model.model_json_schema()
    schema.pop("description", None)
    return {name: _short(part) for name, part in schema.items() if name != "title"}


def _short(part: Any) -> Any:
    """A part of a schema without titles, and without the type of what is left out."""
    if isinstance(part, list):
        return [_short(each) for each in part]
    if not isinstance(part, dict):
        return part
    fields = {name: _short(value) for name, value in part.items() if name != "title"}
    others = [each for each in fields.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) == 1:
        fields = {**others[0], **{name: fields[name] for name in fields if name != "anyOf"}}
    if "default" in fields and fields["default"] is None:
        del fields["default"]
    return fields
