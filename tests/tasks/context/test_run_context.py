"""The context closes what it opened, whatever goes wrong on the way in or out."""

from __future__ import annotations

import gc
import gzip
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import AssizesError
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.context.run_context import freeze_heap, open_run_context
from assizes.tasks.runtime.own_process import SELDOM
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.store import open_store


def config(folder: Path, cache: str) -> RunConfig:
    return RunConfig.model_validate(
        {
            "transcripts": {"uri": str(folder)},
            "store": {"uri": f"duckdb:///{folder}/rows.duckdb"},
            "cache": {"uri": cache},
        }
    )


def is_closed(wanted: RunConfig) -> bool:
    """A DuckDB file that is still open for writing cannot be opened for reading beside it."""
    with open_store(wanted.store) as store:
        return store.runs().is_empty()


async def test_the_store_is_closed_when_the_room_cannot_be_furnished(tmp_path: Path):
    wanted = config(tmp_path, "nosuch://replies")
    with pytest.raises((AssizesError, ValueError), match="nosuch"):
        async with open_run_context(wanted):
            pass
    assert is_closed(wanted)


class Stuck(ScriptedModel):
    """Its connections cannot be given back."""

    async def aclose(self) -> None:
        raise ConnectionResetError("the peer has gone")


async def test_the_store_and_the_spool_are_closed_when_a_model_cannot_be(tmp_path: Path):
    wanted = config(tmp_path, str(tmp_path / "replies"))
    packed = tmp_path / "t.jsonl.gz"
    packed.write_bytes(gzip.compress(b"{}\n"))
    spooled: list[Path] = []

    async def sit() -> None:
        async with open_run_context(wanted) as context:
            spooled.append(context.spool.path(list_sources(str(packed), {})[0]))
            context._engine = Engine(Stuck([]), LimitsConfig(max_in_flight=1, timeout_s=1))

    with pytest.raises(ConnectionResetError, match="the peer has gone"):
        await sit()
    assert is_closed(wanted)
    assert [file.exists() for file in spooled] == [False]


PYTHONS_OWN = (700, 10, 10)


@pytest.fixture
def a_usual_collector() -> Iterator[None]:
    """The test process freezes its heap, and collects seldom; a program of a user does neither."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(*PYTHONS_OWN)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("a_usual_collector")
def test_the_heap_is_frozen_and_garbage_sought_seldom_for_the_length_of_a_run_only():
    with freeze_heap():
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == SELDOM
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == PYTHONS_OWN


@pytest.mark.usefixtures("a_usual_collector")
def test_of_runs_that_overlap_the_last_puts_the_settings_back():
    one, other = ExitStack(), ExitStack()
    one.enter_context(freeze_heap())
    other.enter_context(freeze_heap())
    one.close()
    assert gc.get_threshold() == SELDOM
    other.close()
    assert gc.get_threshold() == PYTHONS_OWN
