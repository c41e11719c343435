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

from assizes.judge.config import (
    ConfigTable,
    Place,
    StorageOptions,
    endpoints,
    gates,
    publishing,
    s3_host_fault,
)
from assizes.judge.config.causes import CausesConfig
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.notify import NotifyConfig
from assizes.judge.config.runner import MAX_SHARD_SIZE, MIN_SHARD_SIZE, RunnerConfig
from assizes.judge.config.sampling import SamplingConfig, sampling_fault
from assizes.judge.config.transcripts import (
    GroundTruthConfig,
    PrivacyConfig,
    TranscriptsConfig,
)
from assizes.judge.privacy.secret_masking import keys_in, revealing_urls, secret_names
from assizes.judge.rows import as_json

_KEY_VARIABLES = {  # scheme of a place -> variables of the environment that hold its keys
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_CONNECTION_STRING",
}


class NightlyConfig(ConfigTable):
    """[nightly]: a run over the transcripts of the day before, every night."""

    cron: str = Field(
        default="0 4 * * *",
        description="When the nightly run starts, as a cron expression in `time_zone`. Empty: the "
        "deployment has no schedule.",
    )
    time_zone: str = Field(
        default="UTC",
        description="The time zone whose days the date placeholders mean, as in `Europe/Berlin`.",
    )
    catch_up: int = Field(
        default=7,
        ge=0,
        le=366,
        description="The most missed nights that the next nightly run judges too.",
    )

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # an empty name, a path, a long text
            raise ValueError("no such time zone; write a name such as Europe/Berlin") from None
        return value


class AfterDeploymentConfig(ConfigTable):
    """[after_deployment]: a run over the first transcripts of a new version of the agent."""

    min_transcripts: int = Field(
        default=100,
        ge=1,
        description="The number of transcripts of the new version that are waited for before it is "
        "judged.",
    )
    deadline_minutes: float = Field(
        default=24 * 60.0,
        gt=0,
        description="The minutes after which the version is judged by the transcripts there are.",
    )
    poll_s: float = Field(
        default=60.0, gt=0, description="The pause in seconds between looks for new transcripts."
    )


class BackfillConfig(ConfigTable):
    """[backfill]: one run for each day of a range."""

    in_flight: int = Field(
        default=1, ge=1, le=64, description="The number of days that are judged at once."
    )
    order: Literal["oldest", "newest"] = Field(
        default="oldest", description="Which day is judged first."
    )


_DUCKDB_SUFFIXES = (".duckdb", ".ddb", ".db")
"""How the path of a DuckDB file ends; any other path is a folder of Parquet files."""


class StoreConfig(ConfigTable):
    """[store]: where rows are stored: a DuckDB file, or a folder or s3:// URI for Parquet."""

    uri: Place = Field(
        default="duckdb:///assizes.duckdb",
        description="Where rows are stored: a DuckDB file (`duckdb:///file.duckdb`, or just "
        "`file.duckdb`, `.db`, `.ddb`), or a folder or an `s3://` URI for Parquet.",
    )
    storage_options: StorageOptions = Field(default_factory=dict)

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

    uri: Place = Field(
        default=".assizes/replies",
        description="Where replies that were paid for are kept: a folder or any fsspec URI.",
    )
    use: Literal["read_write", "refresh", "replay_only"] = Field(
        default="read_write",
        description="How the cache is used. `read_write`: kept replies are used and new ones are "
        "kept. `refresh`: replies that other runs received are asked for again. "
        "`replay_only`: no model is asked.",
    )
    storage_options: StorageOptions = Field(default_factory=dict)


class ReportConfig(ConfigTable):
    """[report]: where reports are written, each run in a folder of its own."""

    uri: Place = Field(
        default="reports", description="Where reports are written, each run in a folder of its own."
    )
    metrics: str | None = Field(
        default=None,
        description="A folder of a Prometheus textfile collector. Each run replaces its file there.",
    )
    storage_options: StorageOptions = Field(default_factory=dict)


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

    model_config = ConfigDict(hide_input_in_errors=True)  # an error must not show the secret in it

    name: str = Field(
        default="evaluation",
        pattern="^[a-z0-9][a-z0-9_-]{0,62}$",
        description="The name of the runs. It is part of run ids and of names in Prefect, and runs of "
        "one name form a series.",
    )
    transcripts: TranscriptsConfig
    ground_truth: GroundTruthConfig = GroundTruthConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    judge: JudgeConfig = JudgeConfig()
    limits: LimitsConfig = LimitsConfig()
    thresholds: gates.ThresholdsConfig = gates.ThresholdsConfig()
    comparison: gates.ComparisonConfig = gates.ComparisonConfig()
    calibration: gates.CalibrationConfig = gates.CalibrationConfig()
    sampling: SamplingConfig = SamplingConfig()
    series: gates.SeriesConfig = gates.SeriesConfig()
    anchors: gates.AnchorsConfig = gates.AnchorsConfig()
    causes: CausesConfig = CausesConfig()
    store: StoreConfig = StoreConfig()
    cache: CacheConfig = CacheConfig()
    report: ReportConfig = ReportConfig()
    runner: RunnerConfig = RunnerConfig()
    nightly: NightlyConfig = NightlyConfig()
    after_deployment: AfterDeploymentConfig = AfterDeploymentConfig()
    backfill: BackfillConfig = BackfillConfig()
    notify: NotifyConfig = NotifyConfig()
    publish: publishing.PublishConfig = publishing.PublishConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> RunConfig:
        """Check the length of the name, and that no table holds a secret."""
        if self.anchors.uri is not None and len(self.name) > MAX_ANCHORED_NAME:
            raise ValueError(f"name: at most {MAX_ANCHORED_NAME} characters with [anchors]")
        is_partial = {"batch": self.runner.batch, "since_last": self.transcripts.since_last}
        if fault := sampling_fault(self.sampling, self.comparison, **is_partial):
            raise ValueError(fault)
        # A pattern of [privacy] that describes keys may look like one.
        tables = self.model_dump(exclude={"name", "privacy"})
        for table in _STORED_PLACES:
            for name in secret_names(tables[table]["storage_options"]):
                scheme = str(tables[table]["uri"]).partition("://")[0]
                raise ValueError(
                    f"[{table}] storage_options.{name}: secrets belong in the environment "
                    f"({_KEY_VARIABLES.get(scheme, _KEY_VARIABLES['s3'])})"
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

    @model_validator(mode="after")
    def _s3_services_can_be_asked(self) -> RunConfig:
        for table in _STORED_PLACES:
            place = getattr(self, table)
            faults = map(s3_host_fault, endpoints(place.storage_options))
            if str(place.uri).startswith("s3://") and (fault := next(filter(None, faults), None)):
                raise ValueError(f"[{table}] storage_options.endpoint_url: {fault}")
        return self

    @property
    def shard_size(self) -> int:
        """The number of cases in a shard."""
        runner, slots = self.runner, self.limits.max_in_flight
        if runner.shard_size is not None:
            return runner.shard_size
        if runner.kind != "local":
            return max(MIN_SHARD_SIZE, 2 * slots)
        # Twice the calls in flight of a process keeps the cost of orchestration under 2 %. Larger
        # ones are read for long before the first call, and leave processes idle at the end.
        wanted = 2 * slots if runner.processes == 1 else slots
        return max(MIN_SHARD_SIZE, min(wanted, MAX_SHARD_SIZE))

    @property
    def shards_at_once(self) -> int:
        """The number of shards that are judged at once where one process judges alone."""
        runner = self.runner
        if runner.shard_size is not None:
            return runner.shards_in_flight
        # So many shards hold the cases of `shards_in_flight` shards of twice the calls in flight.
        return runner.shards_in_flight * max(
            1, -(-2 * self.limits.max_in_flight // self.shard_size)
        )

    def result_settings(self) -> dict[str, Any]:
        """The settings that can change a result; places to write to and limits on speed cannot."""
        body = self.model_dump(mode="json", include={"name", "judge", "thresholds"})
        body["transcripts"] = self.transcripts.counted()
        unset_judge = JudgeConfig().model_dump(mode="json")
        later = ("flagged_passes", "floors", "second_look", "reply_format", "cascade")
        for name in later:  # as in `counted`
            if body["judge"][name] == unset_judge[name]:
                del body["judge"][name]
        decides = ("sampling",) if self.sampling.stops else ()
        for name in ("ground_truth", "privacy", *decides):
            if (table := getattr(self, name)) != type(table)():
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

SUITE = "suite"
"""Key in the snapshot of a run over a suite: its `name`, `version`, and judged `conversations`."""

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


def suite_series(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and conversations (`new` or `stored`) of the suite of a run; `None`: it was over none."""
    suite = config.get(SUITE)
    return None if suite is None else (suite["name"], suite["conversations"])


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
