"""[runner]: how the work of a run is divided, in this process or over workers on other machines."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.config.table import ConfigTable


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
