"""The configuration of a run, validated before any money is spent, and what starts and ends a run.

Each table of the TOML file is one frozen model. Nothing here reads the environment, and a
configuration holds no secrets: keys come from the environment variables of the provider.
`config_diff` says in which settings the stored configurations of two runs differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from assizes.judge.config import ConfigTable, gates
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.transcripts import (
    LATER_SETTINGS,
    GroundTruthConfig,
    PrivacyConfig,
    TranscriptsConfig,
)
from assizes.judge.privacy.secret_masking import keys_in, revealing_urls, secret_names
from assizes.judge.rows import as_json


class RunnerConfig(ConfigTable):
    """[runner]: where shards are judged, how large they are, and how many at once."""

    kind: Literal["local", "workers", "dask"] = Field(
        default="local",
        description="workers: partitions of a run are flow runs that workers of a Prefect work pool "
        "take up; dask: they are tasks of a Dask cluster",
    )
    work_pool: str = Field(
        default="assizes", description="whose workers run the deployments and the partitions"
    )
    partition_shards: int = Field(default=8, ge=1, description="shards in a partition")
    partitions_in_flight: int = Field(
        default=32, ge=1, le=500, description="partitions given out at once, at most"
    )
    lost_after_s: float = Field(
        default=90.0,
        ge=2,
        description="a partition that shows no life for so long is given out anew",
    )
    dask_address: str | None = Field(
        default=None, description="scheduler, tcp://host:8786; null: a cluster of this machine"
    )
    shard_size: int | None = Field(
        default=None, ge=1, description="cases per task; null: twice max_in_flight, at least 20"
    )
    shards_in_flight: int = Field(default=3, ge=1)
    batch: bool = Field(
        default=False, description="ask through the provider's batch endpoint: half price, slower"
    )
    batch_poll_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="pause before the second look at a batch; doubled up to 60 s",
    )
    fail_flow: bool = Field(
        default=True, description="end the flow as Failed on a regression or a failed gate"
    )


NotificationReason = Literal["finished", "regression", "inconclusive", "failed"]
"""The reasons for a notification; `finished` is sent for every run."""


class NightlyConfig(ConfigTable):
    """[nightly]: a run over the transcripts of the day before, every night."""

    cron: str = Field(
        default="0 4 * * *", description="when, in the time zone below; empty: never by itself"
    )
    time_zone: str = Field(
        default="UTC", description="whose days the date placeholders mean, e.g. Europe/Berlin"
    )
    catch_up: int = Field(
        default=7, ge=0, le=366, description="missed nights that are made good, at most"
    )

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError):  # ValueError: an empty name, a path
            raise ValueError("no such time zone; write a name such as Europe/Berlin") from None
        return value


class AfterDeploymentConfig(ConfigTable):
    """[after_deployment]: a run over the first transcripts of a new version of the agent."""

    min_transcripts: int = Field(
        default=100, ge=1, description="of the version, before it is judged"
    )
    deadline_minutes: float = Field(
        default=24 * 60.0, gt=0, description="then it is judged by what there is"
    )
    poll_s: float = Field(default=60.0, gt=0, description="pause between two looks")


class BackfillConfig(ConfigTable):
    """[backfill]: one run for each day of a range."""

    in_flight: int = Field(default=1, ge=1, le=64, description="days judged at once")
    order: Literal["oldest", "newest"] = Field(
        default="oldest", description="which day comes first"
    )


class NotifyConfig(ConfigTable):
    """[notify]: the Prefect block that sends notifications, and the reasons to send one."""

    block: str | None = Field(
        default=None,
        description="a saved Prefect notification or webhook block, as type/name: "
        "slack-webhook/oncall, email/team, webhook/pager",
    )
    on: tuple[NotificationReason, ...] = Field(
        default=("regression", "inconclusive", "failed"), min_length=1
    )
    missed_after_hours: float = Field(
        default=26.0, gt=0, description="no nightly run ended for so long: that is told too"
    )


_DUCKDB_SUFFIXES = (".duckdb", ".ddb", ".db")
"""How the path of a DuckDB file ends; any other path is a folder of Parquet files."""


class StoreConfig(ConfigTable):
    """[store]: where rows are stored: a DuckDB file, or a folder or s3:// URI for Parquet."""

    uri: str = Field(
        default="duckdb:///assizes.duckdb",
        description="duckdb:///file.duckdb, or just file.duckdb (.db, .ddb): a DuckDB file; a folder "
        "or s3://bucket/prefix: Parquet files",
    )
    storage_options: dict[str, Any] = Field(default_factory=dict)  # of fsspec; no secrets

    @field_validator("uri")
    @classmethod
    def _as_uri(cls, value: str) -> str:
        """The path of a DuckDB file as the URI of such a store."""
        path = value.removeprefix("file://")
        if "://" in path or path.startswith("duckdb:") or not path.endswith(_DUCKDB_SUFFIXES):
            return value
        return f"duckdb:///{path}"

    def at(self, uri: str) -> StoreConfig:
        """The same settings for a store at another place, which may be a path."""
        return type(self)(uri=uri, storage_options=self.storage_options)


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


Trigger = Literal["nightly", "deployment", "backfill", "adhoc"]
StartMode = Literal["begin", "resume", "fork"]
"""How a run starts. `begin`: start it, or continue a run of the same configuration and input;
`resume`: continue it by its stored plan; `fork`: where an earlier start had another configuration
or input, start another run.
"""

MAX_ANCHORED_NAME = 55
"""Characters of a run's name with [anchors]: the name of its anchor run appends `-anchors`."""

_STORED_PLACES = ("transcripts", "ground_truth", "store", "cache", "report")


class RunConfig(ConfigTable):
    """All settings of one run; a snapshot of them is stored in the run's row."""

    # Otherwise the text of the error would show the secret that it refuses.
    model_config = ConfigDict(hide_input_in_errors=True)

    # Part of run ids and of names in Prefect.
    name: str = Field(default="evaluation", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    transcripts: TranscriptsConfig
    ground_truth: GroundTruthConfig = GroundTruthConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    judge: JudgeConfig = JudgeConfig()
    limits: LimitsConfig = LimitsConfig()
    thresholds: gates.ThresholdsConfig = gates.ThresholdsConfig()
    comparison: gates.ComparisonConfig = gates.ComparisonConfig()
    calibration: gates.CalibrationConfig = gates.CalibrationConfig()
    series: gates.SeriesConfig = gates.SeriesConfig()
    anchors: gates.AnchorsConfig = gates.AnchorsConfig()
    store: StoreConfig = StoreConfig()
    cache: CacheConfig = CacheConfig()
    report: ReportConfig = ReportConfig()
    runner: RunnerConfig = RunnerConfig()
    nightly: NightlyConfig = NightlyConfig()
    after_deployment: AfterDeploymentConfig = AfterDeploymentConfig()
    backfill: BackfillConfig = BackfillConfig()
    notify: NotifyConfig = NotifyConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> RunConfig:
        """Check the length of the name, and that no table holds a secret."""
        if self.anchors.uri is not None and len(self.name) > MAX_ANCHORED_NAME:
            raise ValueError(f"name: at most {MAX_ANCHORED_NAME} characters with [anchors]")
        # A pattern of [privacy] that describes keys may look like one.
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
        """The number of cases in a shard."""
        # Twice the calls in flight keeps the cost of orchestration under 2 %.
        return self.runner.shard_size or max(20, 2 * self.limits.max_in_flight)

    def result_settings(self) -> dict[str, Any]:
        """The settings that can change a result; places to write to and limits on speed cannot."""
        body = self.model_dump(mode="json", include={"name", "transcripts", "judge", "thresholds"})
        del body["transcripts"]["storage_options"]
        unset = TranscriptsConfig(uri="").model_dump(mode="json")
        # A later setting counts only where it is set, so that a run of an older version can be
        # continued.
        for name in LATER_SETTINGS:
            if body["transcripts"][name] == unset[name]:
                del body["transcripts"][name]
        unset_judge = JudgeConfig().model_dump(mode="json")
        for name in ("flagged_passes", "floors", "second_look", "reply_format"):  # as above
            if body["judge"][name] == unset_judge[name]:
                del body["judge"][name]
        for name, table in (("ground_truth", self.ground_truth), ("privacy", self.privacy)):
            if table != type(table)():
                body[name] = table.model_dump(mode="json", exclude={"storage_options"})
        return body

    def config_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 over `result_settings`."""
        return hashlib.sha256(as_json(self.result_settings()).encode()).hexdigest()[:16]


TABLES = ("name", "transcripts", "judge", "thresholds")
"""The tables of a configuration snapshot that can change a result."""

FINGERPRINTS = "fingerprints"
PRIVACY = "privacy"
TRUTH = "ground_truth_digest"
"""Keys of a snapshot, which older versions lack: the versions of judges and the hashes of rubrics,
the table of hidden data, and the hash of the file with expected values, `None` without a file."""

_WHERE_BOTH = (FINGERPRINTS, PRIVACY, TRUTH)
_NOT_A_SETTING = "transcripts.storage_options"


class FieldChange(BaseModel):
    """One setting that differs; a value is `None` where that side lacks the setting."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    baseline: Any
    candidate: Any


def config_diff(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[FieldChange]:
    """The settings that differ between two configuration snapshots, by dotted name.

    Each chosen metric counts as one setting (`judge.metrics.tool_routing`) whose value is its
    weight, or `default` where the metric's own weight is used.
    """
    # Older versions lack some tables: these count only where both snapshots have them.
    tables = {*TABLES, *(key for key in _WHERE_BOTH if key in baseline and key in candidate)}
    old, new = (  # dotted name -> value
        dict(_fields({table: side[table] for table in tables & side.keys()}))
        for side in (baseline, candidate)
    )
    return [
        FieldChange(field=name, baseline=old.get(name), candidate=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def judge_changes(changes: list[FieldChange]) -> list[str]:
    """The names of the changed settings that change how the judge scores."""
    return [
        change.field
        for change in changes
        if change.field.partition(".")[0] in ("judge", FINGERPRINTS, PRIVACY)
    ]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if path == _NOT_A_SETTING:  # how a file system is reached decides no score
        return
    if isinstance(value, Mapping) and value:  # an empty table is a value of its own
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else str(name))
    elif path == "judge.metrics" and isinstance(value, list | tuple) and value:
        for selection in value:
            weight = selection["weight"]
            yield f"{path}.{selection['metric']}", "default" if weight is None else weight
    else:
        yield path, value
