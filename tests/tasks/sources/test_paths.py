"""Hostile names never become a way out of a folder, to read or to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.spool import Spool
from tests.hostile import PATHS
from tests.hostile.places import PLACES, laid_out


@pytest.mark.parametrize("place", PLACES)
def test_no_name_leads_out_of_its_folder(tmp_path: Path, place: str):
    assert len(PATHS) >= 60
    assert PLACES[place](tmp_path) == []


def test_a_link_that_leads_out_is_a_reject_and_one_within_is_read(tmp_path: Path):
    home = laid_out(tmp_path)
    (home / "real.json").write_bytes((tmp_path / "x.jsonl").read_bytes())
    (home / "within.jsonl").symlink_to(home / "real.json")
    (home / "out.jsonl").symlink_to(tmp_path / "x.jsonl")
    config = TranscriptsConfig(uri=f"{home}/*.jsonl")
    with Spool.of(config) as spool:
        plan = plan_intake(config, 10, spool)
    assert (plan.due, plan.reasons, plan.lost_object_count) == (1, {"link": 1}, 0)
    (failed,) = [shard for shard in plan.shards if shard.failure]
    assert "leads out of its folder" in failed.failure[1]


def test_a_link_that_the_configuration_names_is_read(tmp_path: Path):
    home = laid_out(tmp_path)
    (home / "out.jsonl").symlink_to(tmp_path / "x.jsonl")
    (home / "folder").symlink_to(tmp_path)
    for uri in (home / "out.jsonl", home / "folder" / "*.jsonl"):
        config = TranscriptsConfig(uri=str(uri))
        with Spool.of(config) as spool:
            assert plan_intake(config, 10, spool).due == 1
