"""[runner]: where the shards of a run are judged."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from assizes.judge.config import ConfigTable
from assizes.judge.config.bedrock import BedrockConfig
from assizes.judge.config.vertex import VertexConfig

MIN_SHARD_SIZE: Final = 20
"""The fewest cases of a shard where `shard_size` is not set: each shard is a task run of Prefect."""

MAX_SHARD_SIZE: Final = 256
"""The most, with `kind = "local"`: a shard is read before its first call is made."""


class RunnerConfig(ConfigTable):
    """[runner]: where shards are judged, how large they are, and how many at once."""

    kind: Literal["local", "workers", "dask"] = Field(
        default="local",
        description="Where shards are judged. `local`: in this process. `workers`: partitions of a "
        "run are flow runs that the workers of a Prefect work pool take. `dask`: "
        "partitions are tasks of a Dask cluster.",
    )
    processes: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = Field(
        default=1,
        description='The number of processes of this machine that judge the shards, with `kind = "local"`. '
        "They share limits, budget, ledger and cache. `auto`: one for each usable processor "
        "core where the run is large enough, else one.",
    )
    work_pool: str = Field(
        default="assizes",
        description="The name of the Prefect work pool whose workers run the deployments and the "
        "partitions.",
    )
    partition_shards: int = Field(
        default=8, ge=1, description="The number of shards in one partition."
    )
    partitions_in_flight: int = Field(
        default=32, ge=1, le=500, description="The most partitions that are given out at once."
    )
    lost_after_s: float = Field(
        default=90.0,
        ge=2,
        description="A partition without a sign of life for so many seconds is given out again.",
    )
    dask_address: str | None = Field(
        default=None,
        description="The address of the Dask scheduler, as in `tcp://host:8786`. Not set: a cluster "
        "of processes on this machine.",
    )
    shard_size: int | None = Field(
        default=None,
        ge=1,
        description="The number of cases in one shard, which is one Prefect task. Not set: twice "
        '`limits.max_in_flight`, and at least 20; with `kind = "local"` at most 256, and with several '
        "`processes` no more than `limits.max_in_flight`.",
    )
    shards_in_flight: int = Field(
        default=3,
        ge=1,
        description="The number of shards that are judged at once. Where `shard_size` is not set and "
        "shards hold less than twice `limits.max_in_flight`, there are more, with as many cases. "
        "With several `processes`, each has its part of this number, and more where its calls need it.",
    )
    batch: bool = Field(
        default=False,
        description="Ask through the provider's batch endpoint, which costs half the price and takes "
        "longer.",
    )
    batch_poll_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="The pause in seconds before the second look at a batch. Each pause is twice as "
        "long as the one before, up to 60 s.",
    )
    bedrock: BedrockConfig = BedrockConfig()
    vertex: VertexConfig = VertexConfig()
    fail_flow: bool = Field(
        default=True,
        description="End the Prefect flow as Failed after a regression or a failed gate. `false`: the "
        "flow completes, and only the name of its state tells.",
    )

    @model_validator(mode="after")
    def _has_processes_of_its_own(self) -> RunnerConfig:
        if isinstance(self.processes, int) and self.processes > 1:
            if self.kind != "local":
                raise ValueError(
                    f'processes: {self.processes} is for kind = "local" only; with kind = '
                    f'"{self.kind}" leave it out'
                )
            if self.batch:
                raise ValueError("processes: one process collects batches; leave it out with batch")
        return self
