"""A damaged DuckDB file: noticed, renamed, and built again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import duckdb
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreBusy, StoreError
from assizes.tasks.store import open_store, rebuild_store
from tests.command import assizes
from tests.soak.damage import NAME, RUNS, build, damage, fill, held, outcomes, tables_of
from tests.soak.rows import SHARDS


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The files of a store whose writer was killed, and the rows of its tables."""
    folder = tmp_path_factory.mktemp("built") / "store"
    return folder, build(folder)


@pytest.fixture
def damaged(built: tuple[Path, dict[str, str]], tmp_path: Path):
    """A copy of these files, damaged as the test asks."""

    def made(kind: str) -> tuple[Path, StoreConfig]:
        folder = tmp_path / "store"
        shutil.copytree(built[0], folder)
        damage(folder, kind, random.Random(11))
        return folder, StoreConfig(uri=f"duckdb:///{folder}/{NAME}")

    return made


def bytes_of(folder: Path) -> dict[str, bytes]:
    locks = (".writer", ".turn")  # a killed writer left them; they hold no rows
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix not in locks}


@pytest.mark.full
def test_no_damage_of_forty_is_read_as_if_it_were_whole_and_it_is_rebuilt(tmp_path):
    found = outcomes(tmp_path / "work", 40, seed=1, rebuilt=5)
    assert {outcome for _, outcome in found} <= {"same", "told"}
    assert sum(count for (_, outcome), count in found.items() if outcome == "told") >= 30


@pytest.mark.parametrize("kind", ["wal cut", "wal flipped", "file cut", "wal gone"])
def test_opening_a_damaged_store_either_way_says_what_to_do_and_changes_nothing(damaged, kind):
    folder, place = damaged(kind)
    before = bytes_of(folder)
    for writing in (False, True):
        with pytest.raises(StoreError) as caught, open_store(place, writing=writing) as store:
            store.run("first")
        assert "is damaged: " in str(caught.value)
        assert "run `assizes store rebuild`: it moves them aside" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert bytes_of(folder) == before


def test_a_cut_log_costs_the_shards_in_it_which_running_again_brings_back(built, damaged):
    folder, place = damaged("wal cut")
    before = bytes_of(folder)
    done = rebuild_store(place, None)
    assert (sorted(done.kept_run_ids), done.losses) == (["first", "second"], {})
    with open_store(place) as store:
        assert store.run("first").status == "complete"
        assert store.run("second").status == "running"
        assert 0 < len(store.shard_counts("second")) < len(SHARDS)
    with open_store(place, writing=True) as store:
        fill(store, "second")
        assert tables_of(store) == built[1]
    aside = bytes_of(folder)
    for name, data in before.items():
        assert aside[name.replace(NAME, f"{NAME}.damaged-1")] == data


def test_a_flipped_log_is_left_out_and_what_was_in_the_file_is_kept(built, damaged):
    _, place = damaged("wal flipped")
    assert rebuild_store(place, None).kept_run_ids == ["first"]
    with open_store(place, writing=True) as store:
        fill(store, "second")
        assert tables_of(store) == built[1]


def test_a_file_that_cannot_be_read_is_made_anew_and_says_that_all_is_lost(damaged):
    folder, place = damaged("file cut")
    (folder / NAME).write_bytes(b"")
    done = rebuild_store(place, None)
    assert done.kept_run_ids == []
    assert list(done.losses) == ["every run"]
    with open_store(place, writing=True) as store:
        assert store.runs().is_empty()


def test_comparisons_that_cannot_be_read_cost_no_run_and_no_run_is_there_twice(built, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(built[0].parent / "whole", folder)
    place = StoreConfig(uri=f"duckdb:///{folder}/{NAME}")
    with duckdb.connect(folder / NAME) as con:
        con.execute("drop table comparisons")
        con.execute("delete from _commits where run_id = 'first'")
    done = rebuild_store(place, None)
    assert sorted(done.kept_run_ids) == ["first", "second"]
    assert list(done.losses) == ["every comparison"]
    with open_store(place) as store:
        assert sorted(store.runs()["run_id"]) == ["first", "second"]
        assert tables_of(store) == built[1]


def test_a_file_that_opens_and_is_cut_short_further_on_is_no_whole_file(built, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(built[0].parent / "whole", folder)
    place = StoreConfig(uri=f"duckdb:///{folder}/{NAME}")
    open_store(place, writing=True).close()  # settles the log
    cut = (folder / NAME).read_bytes()[:-1]
    (folder / NAME).write_bytes(cut)
    with open_store(place) as store:  # which reads no plan
        assert sorted(store.runs()["run_id"]) == ["first", "second"]
    done = rebuild_store(place, None)
    assert done.kept_run_ids == ["first"]
    assert "Could not read enough bytes" in done.losses["second"]
    assert done.old_file is not None
    assert done.old_file.read_bytes() == cut
    with open_store(place, writing=True) as store:
        fill(store, "second")
        assert tables_of(store) == built[1]
    with pytest.raises(StoreError, match="is whole: nothing to rebuild"):
        rebuild_store(place, None)


@pytest.mark.parametrize("kind", ["wal cut", "wal gone", "file cut", "file gone"])
def test_a_parquet_copy_gives_the_very_same_tables(built, damaged, kind):
    folder, place = damaged(kind)
    done = rebuild_store(place, StoreConfig(uri=str(built[0].parent / "lake")))
    assert sorted(done.kept_run_ids) == sorted(RUNS)
    assert held(folder) == built[1]
    with open_store(place, writing=True) as store:
        fill(store, "second")
        assert tables_of(store) == built[1]


def test_the_files_of_an_earlier_damage_are_never_written_over(built, damaged):
    folder, place = damaged("wal cut")
    first = bytes_of(folder)[f"{NAME}.wal"]
    rebuild_store(place, None)
    (folder / NAME).write_bytes(b"torn")
    rebuild_store(place, None)
    assert bytes_of(folder)[f"{NAME}.damaged-1.wal"] == first
    assert bytes_of(folder)[f"{NAME}.damaged-2"] == b"torn"


def test_a_whole_store_or_one_of_parquet_is_not_rebuilt(built, tmp_path):
    whole = StoreConfig(uri=f"duckdb:///{built[0].parent}/whole/{NAME}")
    with pytest.raises(StoreError, match="is whole: nothing to rebuild"):
        rebuild_store(whole, None)
    with pytest.raises(StoreError, match="is no Parquet store; accepted: a folder"):
        rebuild_store(whole, whole)
    with pytest.raises(StoreError, match="is a Parquet store, of which nothing is derived"):
        rebuild_store(StoreConfig(uri=str(tmp_path / "lake")), None)
    with pytest.raises(StoreError, match="no store at"):
        rebuild_store(StoreConfig(uri=f"duckdb:///{tmp_path}/none.duckdb"), None)
    with open_store(whole, writing=True), pytest.raises(StoreBusy):
        rebuild_store(whole, None)


def test_a_file_that_a_person_took_away_is_made_anew_with_a_word(built, tmp_path, caplog):
    shutil.copytree(built[0].parent / "whole", tmp_path / "store")
    place = StoreConfig(uri=f"duckdb:///{tmp_path}/store/{NAME}")
    open_store(place, writing=True).close()  # settles the log
    (tmp_path / "store" / NAME).unlink()
    with open_store(place, writing=True) as store:
        assert store.runs().is_empty()
    assert "is gone and is made anew; it held 48 shards of 2 runs" in caplog.text
    with open_store(place, writing=True) as store:
        fill(store, "first")


def test_a_journal_line_that_was_cut_short_is_written_again(built, tmp_path):
    shutil.copytree(built[0].parent / "whole", tmp_path / "store")
    place = StoreConfig(uri=f"duckdb:///{tmp_path}/store/{NAME}")
    open_store(place, writing=True).close()
    journal = tmp_path / "store" / f"{NAME}.commits"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-20])
    open_store(place).close()
    open_store(place, writing=True).close()
    assert journal.read_bytes() == whole[:-20] + b"\n" + whole.splitlines(keepends=True)[-1]
    journal.write_bytes(whole.replace(b'"s003"', b'"s777"'))
    open_store(place, writing=True).close()


@pytest.mark.full
def test_the_command_says_what_was_kept_and_where_the_old_files_are(built, damaged):
    folder, place = damaged("wal flipped")
    told = assizes("runs", "--store", place.uri, cwd=folder)
    assert (told.code, told.out) == (2, "")
    assert "run `assizes store rebuild`" in told.err
    done = assizes("store", "rebuild", "--store", place.uri, cwd=folder)
    assert done.code == 0, done.err
    assert "kept 1 runs: first" in done.out
    assert f"the damaged files are kept as {folder}/{NAME}.damaged-1 (.wal, .commits)" in done.out
    assert "there was no second copy" in done.out
    assert "first" in assizes("runs", "--store", place.uri, cwd=folder).out
