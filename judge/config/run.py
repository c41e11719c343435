"""The configuration of a run, validated before any money is spent.

Each table of the TOML file is one frozen model. Nothing here reads the environment, and a
configuration holds no secrets: keys come from the environment variables of the provider.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from assizes.judge.config.anchors import (
    AnchorsConfig,
)
from assizes.judge.config.calibration import CalibrationConfig
from assizes.judge.config.format_names import FormatName
from assizes.judge.config.ground_truth import (
    GroundTruthConfig,
)
from assizes.judge.config.prices import Price
from assizes.judge.config.privacy import PrivacyConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.config.selection import (
    LATER_SETTINGS,
    SelectionConfig,
)
from assizes.judge.config.series import SeriesConfig
from assizes.judge.config.table import ConfigTable
from assizes.judge.config.triggers import (
    AfterDeploymentConfig,
    BackfillConfig,
    NightlyConfig,
    NotifyConfig,
)
from assizes.judge.privacy.credentials import revealing_urls, secret_names
from assizes.judge.privacy.secret_masking import keys_in
from assizes.judge.rows import as_json

OFFLINE_MODEL = "offline/lexical"
"""The name of the model that answers by text rules, without a network or a key."""

Trigger = Literal["nightly", "deployment", "backfill", "adhoc"]
StartMode = Literal["begin", "resume", "fork"]
"""How a run starts. `begin`: start it, or continue a run of the same configuration and input;
`resume`: continue it by its stored plan; `fork`: where an earlier start had another configuration
or input, start another run.
"""

MAX_ANCHORED_NAME = 55
"""Characters of a run's name with [anchors]: the name of its anchor run appends `-anchors`."""

_STORED_PLACES = ("transcripts", "ground_truth", "store", "cache", "report")


class RerunConfig(ConfigTable):
    """[transcripts] again: only the cases that an earlier run left; `assizes requeue` sets it."""

    run: str = Field(description="id of the earlier run")
    only: Literal["quarantined", "errored"]


class TranscriptsConfig(SelectionConfig):
    """[transcripts]: where conversations come from and which of them are judged."""

    uri: str = Field(description="a file, a folder, a glob, or an s3:// URI of either")
    format: FormatName = "auto"
    writes: tuple[str, ...] | None = Field(
        default=None, description="tools that change state, for cases that do not say so"
    )
    redact: str | None = Field(
        default=None,
        description="module:function, Case -> Case, before anything is judged, stored or sent",
    )
    agent: str | None = Field(default=None, description="agent name for cases without one")
    agent_version: str | None = Field(default=None, description="version for cases without one")
    max_record_mb: float = Field(
        default=16.0,
        gt=0,
        description="of one line, or one record of a document; 1 MB = 2^20 bytes",
    )
    max_turns: int = Field(default=5000, ge=1, description="of one conversation")
    max_document_mb: float = Field(
        default=40.0, gt=0, description="of an object that is one JSON document, such as tau2"
    )
    max_object_mb: float = Field(
        default=16_384.0, gt=0, description="of an object once unpacked or fetched"
    )
    salvage: bool = Field(
        default=False, description="judge the whole lines in front of where a packed object breaks"
    )
    databases: str | None = Field(
        default=None, description="folder of the databases that cases name; null: the current one"
    )
    again: RerunConfig | None = Field(
        default=None, description="only what an earlier run could not read, or could not judge"
    )
    canaries: bool = Field(
        default=False, description="an attack of ours in each case; [calibration] canaries sets it"
    )
    storage_options: dict[str, Any] = Field(
        default_factory=dict, description="for the file system, e.g. endpoint_url; no secrets"
    )


class MetricSelection(ConfigTable):
    """A chosen metric; with the weight `None` it has its default weight."""

    metric: str
    weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)


FlaggedPasses = Literal["apart", "count"]
"""How a pass counts when the case addresses its judges (see `JudgeConfig.flagged_passes`)."""


class JudgeConfig(ConfigTable):
    """[judge]: the judges, their metrics and their models (seed 000)."""

    metrics: tuple[MetricSelection, ...] | None = Field(
        default=None, description="conversation metrics; null or empty: the eight defaults"
    )
    judges: tuple[str, ...] = ("conversation",)
    pass_threshold: float = Field(
        default=75.0, ge=0, le=100, description="overall score 0..100 a case needs without outcomes"
    )
    flagged_passes: FlaggedPasses = Field(
        default="apart",
        description="a pass of a case that speaks to its judges: `apart` is not passed and counted "
        "as pass_flagged, `count` is a pass that says so",
    )
    second_look: bool = Field(
        default=False,
        description="ask once more, with the data marked, about a case that speaks to its judges; "
        "where that says otherwise the case is flagged needs_review",
    )
    model: str | None = Field(default=None, description=f"null: {OFFLINE_MODEL}")
    provider: str | None = Field(default=None, description="put before the model: provider/model")
    api_base: str | None = Field(default=None, description="address of a self-hosted endpoint")
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="null: 0.2 where the model takes a temperature"
    )
    max_output_tokens: int = Field(default=4096, ge=1)
    panel: tuple[str, ...] = Field(
        default=(), description="models that all judge each case instead of `model`; majority rules"
    )
    repeats: int = Field(
        default=1, ge=1, le=25, description="times each model is asked the same, independently"
    )
    escalate_to: str | None = Field(
        default=None, description="model that judges anew what `model` is unsure of"
    )
    rubrics: tuple[str, ...] = Field(default=(), description="folders with TOML rubrics")
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="[judge.options.NAME]: threshold, tools, model, temperature of one judge",
    )

    @field_validator("metrics", mode="before")
    @classmethod
    def _names_are_selections(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [{"metric": item} if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="after")
    def _panel_is_one(self) -> JudgeConfig:
        if self.panel and self.model is not None:
            raise ValueError("model and panel: give one of the two")
        members = self.panel or ((self.model,) if self.model else ())
        if len(set(self.panel)) != len(self.panel):
            raise ValueError("panel: a model is named twice; `repeats` asks one several times")
        if self.escalate_to in members:
            raise ValueError("escalate_to: names a model that has judged already")
        return self

    @property
    def model_id(self) -> str:
        """The name by which litellm is called: `provider/model` (000-38)."""
        if self.model is None:
            return OFFLINE_MODEL
        return f"{self.provider}/{self.model}" if self.provider else self.model


class LimitsConfig(ConfigTable):
    """[limits]: the rate limits, timeouts, retries and budgets of calls to judge models."""

    max_in_flight: int = Field(default=32, ge=1, le=10_000, description="calls at once, all models")
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="of each model; null: as the provider lets us"
    )
    tokens_per_minute: int | None = Field(
        default=None, ge=1, description="of each model, prompt and answer together"
    )
    shared: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,80}$",
        description="name of Prefect global concurrency limits that all runs under the two limits "
        "above share; null: this process has them for itself",
    )
    timeout_s: float = Field(default=120.0, gt=0, description="wall clock of one model call")
    deadline_s: float = Field(
        default=300.0,
        gt=0,
        description="wall clock of one ask with its retries, from its first call",
    )
    max_attempts: int = Field(default=4, ge=1, le=10, description="model calls for one ask")
    budget_usd: float | None = Field(default=None, gt=0, description="of one run")
    budget_usd_per_day: float | None = Field(
        default=None, gt=0, description="of all runs in a UTC day that share the ledger"
    )
    max_asks: int | None = Field(default=None, ge=1, description="model calls of one run")
    max_asks_per_day: int | None = Field(default=None, ge=1)
    prices: dict[str, Price] = Field(
        default_factory=dict, description='[limits.prices."MODEL"]: before litellm\'s price list'
    )
    ledger: str = Field(
        default=".assizes/ledger.db", description="file in which every model call is counted"
    )

    @model_validator(mode="after")
    def _shares_something(self) -> LimitsConfig:
        if self.shared and not (self.requests_per_minute or self.tokens_per_minute):
            raise ValueError("shared: needs requests_per_minute or tokens_per_minute to share")
        return self

    @property
    def spending_is_limited(self) -> bool:
        """Whether a budget in US dollars is set, so that every model needs a price."""
        return self.budget_usd is not None or self.budget_usd_per_day is not None


class ThresholdsConfig(ConfigTable):
    """[thresholds]: what a run must reach (seed 001), in percent; coverage is a fraction."""

    metrics_pass_threshold: float = Field(default=80.0, ge=0, le=100)
    cases_pass_threshold: float = Field(default=100.0, ge=0, le=100)
    min_coverage: float = Field(
        default=0.95, ge=0, le=1, description="scored / due; below it a run is inconclusive"
    )


class ComparisonConfig(ConfigTable):
    """[comparison]: the three rules of seed 001, each a strict `>`, and the statistical tests."""

    baseline: str | None = Field(
        default=None,
        description="run id; or by rule, over runs of this name: `latest` (complete), `latest_passed`, "
        "`previous_version` (of the agent)",
    )
    max_pass_rate_drop: float = Field(default=0.0, ge=0, le=1, description="fraction")
    max_avg_score_drop: float = Field(default=5.0, ge=0, le=100, description="points of 0..100")
    max_latency_increase_pct: float = Field(
        default=0.2, ge=0, description="fraction; text such as '20%' is read as 0.2"
    )
    mode: Literal["rules", "statistics", "both"] = Field(
        default="both",
        description="what decides: the rules, the statistics, or the rules with the statistics shown",
    )
    gating: tuple[str, ...] = Field(
        default=("pass_rate", "overall_score"),
        min_length=1,
        description="what the statistics decide on: these two, and names of metrics",
    )
    margin: float = Field(
        default=2.0, gt=0, le=100, description="smallest drop that matters, points of 0..100"
    )
    alpha: float = Field(
        default=0.05, gt=0, lt=0.5, description="share of false alarms over all of `gating`"
    )
    mix_by: str | None = Field(
        default=None,
        description="tag, agent or agent_version by which different cases are made alike",
    )
    slices: tuple[str, ...] | None = Field(
        default=None, description="tags, agent, agent_version, tool; null: every one of few values"
    )
    critical_cases: tuple[str, ...] = Field(
        default=(), description="case ids that must not turn from pass to fail"
    )
    allow: bool = Field(
        default=False, description="compare runs that were judged differently all the same"
    )

    @field_validator("max_pass_rate_drop", "max_latency_increase_pct", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        if isinstance(value, str) and value.strip().endswith("%"):
            return round(float(value.strip()[:-1]) / 100, 9)
        return value


class StoreConfig(ConfigTable):
    """[store]: where rows are stored, `duckdb:///file`, or a folder or s3:// URI for Parquet."""

    uri: str = "duckdb:///assizes.duckdb"
    storage_options: dict[str, Any] = Field(default_factory=dict)


class CacheConfig(ConfigTable):
    """[cache]: where paid replies are cached, as any fsspec URI."""

    uri: str = ".assizes/replies"
    use: Literal["read_write", "refresh", "replay_only"] = Field(
        default="read_write",
        description="refresh: ask anew what other runs were answered; replay_only: ask no model",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)


class ReportConfig(ConfigTable):
    """[report]: where reports are written, each run in a folder of its own."""

    uri: str = "reports"
    metrics: str | None = Field(
        default=None,
        description="folder of a Prometheus textfile collector; each run replaces its file there",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)


class RunConfig(ConfigTable):
    """All settings of one run; a snapshot of them is stored in the run's row."""

    # Otherwise the text of the error would show the secret that it refuses.
    model_config = ConfigDict(hide_input_in_errors=True)

    name: str = Field(default="evaluation", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    transcripts: TranscriptsConfig
    ground_truth: GroundTruthConfig = GroundTruthConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    judge: JudgeConfig = JudgeConfig()
    limits: LimitsConfig = LimitsConfig()
    thresholds: ThresholdsConfig = ThresholdsConfig()
    comparison: ComparisonConfig = ComparisonConfig()
    calibration: CalibrationConfig = CalibrationConfig()
    series: SeriesConfig = SeriesConfig()
    anchors: AnchorsConfig = AnchorsConfig()
    store: StoreConfig = StoreConfig()
    cache: CacheConfig = CacheConfig()
    report: ReportConfig = ReportConfig()
    runner: RunnerConfig = RunnerConfig()
    nightly: NightlyConfig = NightlyConfig()
    after_deployment: AfterDeploymentConfig = AfterDeploymentConfig()
    backfill: BackfillConfig = BackfillConfig()
    notify: NotifyConfig = NotifyConfig()

    @model_validator(mode="after")
    def _anchors_have_a_name(self) -> RunConfig:
        if self.anchors.uri is not None and len(self.name) > MAX_ANCHORED_NAME:
            raise ValueError(f"name: at most {MAX_ANCHORED_NAME} characters with [anchors]")
        return self

    @model_validator(mode="after")
    def _no_secrets(self) -> RunConfig:
        tables = self.model_dump(exclude={"name", "privacy"})
        for table in _STORED_PLACES:
            for name in secret_names(tables[table]["storage_options"]):
                raise ValueError(
                    f"[{table}] storage_options.{name}: secrets belong in the environment "
                    "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
                )
        for table, body in tables.items():
            for place in revealing_urls(body):
                raise ValueError(
                    f"[{table}] {place}: holds a URL with a password, key or signature in it; "
                    "secrets belong in the environment"
                )
            for place in keys_in(body):
                raise ValueError(
                    f"[{table}] {place}: holds what looks like a key; secrets belong in the environment"
                )
        return self

    @property
    def shard_size(self) -> int:
        """Cases per shard: twice the calls in flight keeps the cost of orchestration under 2 %."""
        return self.runner.shard_size or max(20, 2 * self.limits.max_in_flight)

    def result_settings(self) -> dict[str, Any]:
        """The settings that can change a result; places to write to and limits on speed cannot."""
        body = self.model_dump(mode="json", include={"name", "transcripts", "judge", "thresholds"})
        del body["transcripts"]["storage_options"]
        unset = TranscriptsConfig(uri="").model_dump(mode="json")
        for name in LATER_SETTINGS:  # so that a run of an older version can be continued
            if body["transcripts"][name] == unset[name]:
                del body["transcripts"][name]
        if self.judge.flagged_passes == "apart":
            del body["judge"]["flagged_passes"]
        if not self.judge.second_look:
            del body["judge"]["second_look"]
        for name in ("ground_truth", "privacy"):
            table = getattr(self, name)
            if table != type(table)():
                body[name] = table.model_dump(mode="json", exclude={"storage_options"})
        return body

    def config_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 over `result_settings`."""
        return hashlib.sha256(as_json(self.result_settings()).encode()).hexdigest()[:16]
