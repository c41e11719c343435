"""Documents that no model of the program describes: each command's fields, as types."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.commands.doctor import Check
from assizes.deployments.registration.apply import RegistrationResult
from assizes.judge.calibration.measures import Estimate
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.pairs.result import PairwiseResult
from assizes.tasks.store.upkeep import Garbage, SubjectRows


class Document(BaseModel):
    """A document that has these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Stopped(Document):
    """`assizes stop`: one of the two fields."""

    stopped: str | None = Field(default=None, description="id of the run, or `all`")
    lifted: bool | None = Field(default=None, description="whether anything was stopped")


class ComparisonWithPairs(RunComparison):
    """`assizes compare --pairwise`: a comparison, and the win rate beside it."""

    pairwise: PairwiseResult


class RejectedCount(Document):
    """`assizes retry-rejected --dry-run`."""

    of: dict[str, Any] = Field(description="counts of the stored run")
    only: str
    sought: int = Field(description="records that the stored run could not judge")
    due: int = Field(description="how many of them can be judged now")
    still_quarantined: int
    duplicate: int
    reasons: dict[str, int]
    objects: Any


class Deployed(Document):
    """`assizes deploy`."""

    server: str | None = Field(description="address of the Prefect API")
    dry_run: bool
    objects: list[RegistrationResult]


class Imported(Document):
    """`assizes import`: `records` = `cases` + the sum of `rejected`."""

    records: int
    cases: int
    formats: dict[str, int] = Field(description="cases by format")
    kept: dict[str, int]
    lost: dict[str, int] = Field(description="path of a field -> times lost")
    rejected: dict[str, int] = Field(description="code -> records")
    rejects: list[str]
    unchecked: list[str]
    labels: int
    out: str
    labels_file: str | None


class ExportedTable(Document):
    """A file that `assizes export` wrote."""

    table: str
    file: str
    rows: int
    columns: int


class MetricRow(Document):
    """A conversation metric."""

    name: str
    display_name: str
    description: str
    tier: str
    default_weight: float
    score_type: str
    rubric: str
    include_in_defaults: bool


class MetricList(Document):
    """`assizes metrics`."""

    data: list[MetricRow]
    count: int


class JudgeRow(Document):
    """A judge of `assizes judges`."""

    name: str
    description: str
    metrics: list[str]
    needs: list[str]
    needs_ground_truth: Any
    step: str | None
    scale: list[str]
    gate: str | None
    offline: bool = Field(description="whether text rules can stand in for a language model")
    options: dict[str, Any] = Field(description="option -> default")


class Compacted(Document):
    """`assizes store compact`: parts of the run."""

    before: int
    after: int


class Collected(Document):
    """`assizes store clean`."""

    removed: bool
    objects: list[Garbage]


class ToForgetElsewhere(Document):
    """What a deletion would delete at other places."""

    to_delete: int


class ForgottenElsewhere(Document):
    """What a deletion deleted at other places."""

    deleted: int
    by_hand: list[str] = Field(description="what the place does not delete, a line each")


class Forgotten(Document):
    """`assizes store forget`."""

    deleted: bool
    runs: list[SubjectRows]
    elsewhere: ToForgetElsewhere | ForgottenElsewhere


class Rebuilt(Document):
    """`assizes store rebuild`."""

    kept: list[str]
    lost: dict[str, str] = Field(description="run id -> why")
    aside: str | None = Field(description="where the damaged file is kept")


class CauseEditRow(Document):
    """What a person or a model decided about a cause."""

    model_config = ConfigDict(extra="allow")

    edit_id: str
    at: str
    cause_id: str
    kind: str
    value: str


class CauseEditsDocument(Document):
    """The commands that edit causes, and `assizes causes history`."""

    edits: list[CauseEditRow]


class NamedCausesDocument(Document):
    """`assizes causes name`."""

    asked: int = Field(description="causes without a name of a person or a model")
    edits: list[CauseEditRow]
    failed: list[str] = Field(description="codes of asks without a reply")
    cost_usd: float


class CodebookDocument(Document):
    """`assizes causes codebook`."""

    file: str
    codes: int
    new: list[dict[str, Any]]


class CodeCountsRow(Document):
    """How often people and the judge gave a code."""

    code: str
    people: int
    judge: int
    both: int


class CodeAgreementDocument(Document):
    """`assizes causes agreement`."""

    items: int
    accuracy: Estimate
    kappa: Estimate
    codes: list[CodeCountsRow]


class ImportedLabels(Document):
    """`assizes labels import`."""

    run_id: str
    labels: int
    new: int


class ExportedLabels(Document):
    """`assizes labels export`."""

    run_id: str
    labels: int
    file: str


class LabelStatus(Document):
    """`assizes labels status`."""

    run_id: str
    numbers: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    against: str | None
    differences: dict[str, Any]


class PulledLabels(Document):
    """`assizes labels pull`."""

    run_id: str
    source: str = Field(description="where the labels come from")
    read: int = Field(description="labels that were read there")
    elsewhere: Any
    unusable: Any
    labels: int = Field(description="labels of cases of the run")
    new: int
    unknown_names: dict[str, Any]


class CiDocument(Document):
    """`assizes ci`."""

    run_id: str
    conclusion: str
    exit_code: int
    reasons: list[str]
    commit: Any
    baseline: str | None = Field(description="the run it was compared with")
    compared: str = Field(description="which run was chosen as the baseline, and why")
    findings: list[dict[str, Any]]
    findings_total: int
    improved: Any
    files: dict[str, str] = Field(description="files that were written, by kind")
    reports: dict[str, str]


class PromotionDocument(Document):
    """`assizes promote`."""

    suite: str
    folder: str
    run_id: str
    dry_run: bool
    version: str
    cases: int
    added: list[str]
    already_there: list[str]
    other_conversation: list[str]
    left_out: dict[str, str] = Field(description="case id -> why")


class SuiteStanding(Document):
    """How one case of a suite stands."""

    case_id: str
    state: str | None = Field(description="passing, failing, undecided; null: never judged")
    run_id: str | None
    passes: int = Field(description="passes in a row")
    retirable: bool
    causes: list[str]
    came_back: list[str]


class SuiteCause(Document):
    """A cause that cases of a suite guard against."""

    cause_id: str
    name: str
    cases: int
    failing: int
    came_back: int


class SuiteStatusDocument(Document):
    """`assizes suite status`."""

    name: str
    version: str
    cases: int
    retired: int
    runs: list[dict[str, Any]]
    judge_check: dict[str, Any] | None
    passing: int
    failing: int
    undecided: int
    never_judged: list[str]
    came_back: list[str]
    retirable: list[str]
    causes: list[SuiteCause]
    standings: list[SuiteStanding]


class Retired(Document):
    """`assizes suite retire`."""

    suite: str
    version: str
    retired: list[str]


class ReportLinks(Document):
    """`assizes report`: where each file is."""

    html: str
    md: str
    json_: str = Field(alias="json")


Checks = list[Check]
"""`assizes doctor`."""
