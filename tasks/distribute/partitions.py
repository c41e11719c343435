"""Partitions of a run: shards that one other process judges, and the settings that this needs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import as_json
from assizes.tasks.intake.plan import Shard
from assizes.tasks.store import Store
from assizes.tasks.store.bucket import LOCAL_SCHEMES
from assizes.tasks.trace_stores.address import is_trace_store

JUDGED_STATE: Final = "Judged"
LEFT_STATE: Final = "Left"
"""Names of the final state of a partition: all its shards are committed, or some could not be."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Shards that one process judges."""

    number: int  # from 0, over the plan of the run
    shard_ids: tuple[str, ...]

    def key(self, run_id: str, attempt: int) -> str:
        """An idempotency key: equal for the same shards of a run at the same attempt."""
        body = as_json([run_id, self.shard_ids, attempt])
        return f"{run_id}-{hashlib.sha256(body.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class PartitionJob:
    """A partition for another process to judge: the parameters of the flow `judge_partition`."""

    config: RunConfig
    run_id: str
    partition: Partition
    seal: str | None = None  # the token of `context.shared_state`; None for no check

    def parameters(self) -> dict[str, Any]:
        """The parameters as plain JSON values: a configuration and ids, never a transcript."""
        return {
            "config": self.config.model_dump(mode="json"),
            "run_id": self.run_id,
            "partition": self.partition.number,
            "shard_ids": list(self.partition.shard_ids),
            "seal": self.seal,
        }


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """How the flow run of a partition ended, and why."""

    name: str  # of its final state; for an error that ends the run, of the error's class
    message: str
    lost: bool = False  # the process died without giving a reason, so that a retry may succeed
    stale: bool = False  # the flow run is one of an earlier attempt, which had ended before now


def partitions(
    groups: Sequence[Sequence[Shard]],
    size: int,
    done: Collection[str],
    in_progress: Collection[str],
) -> Iterator[Partition]:
    """Cut a plan into partitions of `size` shards; shards `in_progress` elsewhere are left out.

    No partition holds shards of two groups, and none is given that holds only shards that are done.
    """
    # Always cut at the same places: a resumed run gives out the same partitions, by the same keys.
    pieces = (
        group[start : start + size] for group in groups for start in range(0, len(group), size)
    )
    for number, shards in enumerate(pieces):
        ids = [shard.shard_id for shard in shards]
        piece = tuple(shard_id for shard_id in ids if shard_id not in in_progress)
        if any(shard_id not in done for shard_id in piece):  # done shards in it cost a look
            yield Partition(number, piece)


def check_distributable(config: RunConfig) -> None:
    """Check that other processes, perhaps on other machines, can judge parts of a run.

    Raises:
        ConfigurationError: when a setting works for one process only; the message names it.
    """
    kind = f'[runner] kind = "{config.runner.kind}"'
    if config.runner.kind == "dask" and find_spec("distributed") is None:
        raise ConfigurationError(f"{kind}: needs the extra dask: pip install 'assizes[dask]'")
    if config.runner.batch:
        raise ConfigurationError(f'{kind}: [runner] batch is for kind = "local" only')
    limits = config.limits
    if limits.shared is None and (limits.requests_per_minute or limits.tokens_per_minute):
        raise ConfigurationError(
            f"{kind}: each process would take requests_per_minute and tokens_per_minute for itself; "
            'give the limit a name that they share, such as [limits] shared = "openai"'
        )
    places = [
        ("[transcripts] uri", config.transcripts.uri),
        *(("[judge] rubrics", uri) for uri in config.judge.rubrics),
        (
            "[judge.options.conversation] codebook",
            config.judge.options.get("conversation", {}).get("codebook"),
        ),
        ("[ground_truth] uri", config.ground_truth.uri),
        *(
            [("[transcripts.traces] copies", config.transcripts.trace_settings.copies)]
            if is_trace_store(config.transcripts.uri)
            else []
        ),
        ("[anchors] uri", config.anchors.uri),
    ]
    for where, uri in places:
        if uri is not None and not _is_absolute(uri):
            raise ConfigurationError(
                f"{kind}: {where} {uri!r} is looked for where each process stands; give an "
                "absolute path that all of them reach, or a URI such as s3://bucket/prefix"
            )
    databases = config.transcripts.databases
    if databases is not None and not Path(databases).is_absolute():
        raise ConfigurationError(
            f"{kind}: [transcripts] databases {databases!r} is looked for where each process stands; "
            "give the absolute path of a folder that all of them reach"
        )


def check_store(config: RunConfig, store: Store) -> None:
    """Check that several processes may write to the store of a run.

    Raises:
        ConfigurationError: when only one process may.
    """
    if not store.many_writers:
        raise ConfigurationError(
            f'[runner] kind = "{config.runner.kind}": several processes cannot write to [store] uri '
            f"{config.store.uri!r}; give a folder all of them reach, or an s3:// URI of a service "
            "that honours conditional writes"
        )


def partition_config(config: RunConfig) -> RunConfig:
    """The configuration for the process that judges a partition: with `[runner] kind = "local"`.

    Local paths are absolute, as working directories differ; no part of a run's identity changes.
    """
    ledger = str(Path(config.limits.ledger).absolute())
    update: dict[str, Any] = {
        "runner": config.runner.model_copy(
            update={"kind": "local", "shard_size": config.shard_size}  # as the plan was cut
        ),
        "limits": config.limits.model_copy(update={"ledger": ledger}),
    }
    for name in ("store", "cache", "report"):
        place = getattr(config, name)
        if "://" not in place.uri:
            path = str(Path(place.uri).expanduser().absolute())
            update[name] = place.model_copy(update={"uri": path})
    return config.model_copy(update=update)


def has_spending_limit(limits: LimitsConfig) -> bool:
    """Whether any budget is set, so that every model call must be counted in one ledger."""
    names = {"budget_usd", "budget_usd_per_day", "max_asks", "max_asks_per_day"}
    return any(bound is not None for bound in limits.model_dump(include=names).values())


def _is_absolute(uri: str) -> bool:
    for scheme in LOCAL_SCHEMES:
        uri = uri.removeprefix(scheme)
    return "://" in uri or Path(uri).is_absolute()
