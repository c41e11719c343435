"""The configuration of a run, validated before any money is spent.

Each table of the TOML file is one frozen model. Nothing here reads the environment, and a
configuration holds no secrets: keys come from the environment variables of the provider.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from assizes.judge.config.anchors import AnchorsConfig
from assizes.judge.config.calibration import CalibrationConfig
from assizes.judge.config.gates import ComparisonConfig, ThresholdsConfig
from assizes.judge.config.ground_truth import GroundTruthConfig
from assizes.judge.config.judging import JudgeConfig
from assizes.judge.config.limits import LimitsConfig
from assizes.judge.config.places import CacheConfig, ReportConfig, StoreConfig
from assizes.judge.config.privacy import PrivacyConfig
from assizes.judge.config.runner import RunnerConfig
from assizes.judge.config.selection import LATER_SETTINGS
from assizes.judge.config.series import SeriesConfig
from assizes.judge.config.table import ConfigTable
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.config.triggers import (
    AfterDeploymentConfig,
    BackfillConfig,
    NightlyConfig,
    NotifyConfig,
)
from assizes.judge.privacy.credentials import revealing_urls, secret_names
from assizes.judge.privacy.secret_masking import keys_in
from assizes.judge.rows import as_json

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
