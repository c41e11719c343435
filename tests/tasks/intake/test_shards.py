"""From transcript objects to shards, and from a shard back to its cases."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.tasks.intake.plan import Plan
from tests.tasks.intake.intake_files import (
    config,
    counts,
    ids,
    line,
    planned,
    records,
    rejects,
    written,
)


def test_every_record_is_a_case_a_duplicate_a_reject_or_left_out(tmp_path):
    path = written(
        tmp_path / "x.jsonl",
        line("a", tags={"team": "red"}),
        b"{broken",
        b"",
        line("b", tags={"team": "blue"}),
        line("a", tags={"team": "red"}),
        line("c", tags={"team": "red"}),
    )
    chosen = config(path, where={"team": "red"})

    plan = planned(chosen)
    read = records(plan, chosen)

    assert counts(plan) == (5, 2, 1, 1, 1)
    assert [(r.position, r.case and r.case.case_id, r.excerpt) for r in read] == [
        (0, "a", ""),
        (1, None, "{broken"),
        (4, "c", ""),
    ]
    (shard,) = plan.shards
    assert (shard.take, shard.duplicates, shard.rejected) == ((0, 4), (3,), (1,))
    assert (shard.start, shard.stop, shard.unselected, shard.due_positions()) == (0, 5, 1, (0, 4))
    assert (shard.byte_start, shard.byte_stop) == (0, path.stat().st_size)


def test_a_shard_holds_so_many_cases_and_seeks_to_its_first(tmp_path):
    lines = [line(f"case-{number}") for number in range(5)]
    path = written(tmp_path / "x.jsonl", b"", *lines[:2], b"{", b" ", *lines[2:])

    plan = planned(config(path), shard_size=2)

    assert [(shard.start, shard.stop, shard.due_positions()) for shard in plan.shards] == [
        (0, 3, (0, 1)),
        (3, 5, (3, 4)),
        (5, 6, (5,)),
    ]
    content = path.read_bytes()
    assert [content[shard.byte_start : shard.byte_stop] for shard in plan.shards] == [
        lines[0] + b"\n" + lines[1] + b"\n{\n \n",
        lines[2] + b"\n" + lines[3] + b"\n",
        lines[4] + b"\n",
    ]
    assert ids(records(plan, config(path))) == [f"case-{number}" for number in range(5)]


def test_shards_are_named_by_number_and_content_and_never_span_objects(tmp_path):
    for name in ("b", "a"):
        written(tmp_path / f"{name}.jsonl", *(line(f"{name}{number}") for number in range(3)))

    plan = planned(config(tmp_path), shard_size=2)

    assert [Path(shard.uri).name for shard in plan.shards] == ["a.jsonl"] * 2 + ["b.jsonl"] * 2
    assert [shard.shard_id[:7] for shard in plan.shards] == [f"00000{n}-" for n in range(4)]
    assert len({shard.shard_id[7:] for shard in plan.shards}) == 4
    assert {len(shard.shard_id) for shard in plan.shards} == {15}


def test_a_plan_is_the_same_after_a_round_trip_through_json(tmp_path):
    written(tmp_path / "a.jsonl", line("a"), line("b"), line("a"), b"{", line("c"))
    written(tmp_path / "b.jsonl.gz", line("d")).write_bytes(b"not gzip")

    plan = planned(config(tmp_path, limit=2), shard_size=1)

    assert Plan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def test_copies_in_any_object_are_duplicates_of_the_first(tmp_path):
    written(tmp_path / "a.jsonl", line("a"), line("b"))
    written(tmp_path / "b.jsonl.gz", line("c"), line("a", metadata={"copied": True}), line("c"))

    plan = planned(config(tmp_path))

    assert counts(plan) == (5, 3, 2, 0, 0)
    assert [shard.duplicates for shard in plan.shards] == [(), (1, 2)]
    assert ids(records(plan, config(tmp_path))) == ["a", "b", "c"]


def test_repetitions_of_a_case_are_cases_of_their_own(tmp_path):
    path = written(tmp_path / "x.jsonl", *(line("a", repetition=number) for number in range(3)))

    assert counts(planned(config(path))) == (3, 3, 0, 0, 0)


def test_different_cases_of_one_identity_are_all_in_conflict(tmp_path):
    written(tmp_path / "a.jsonl", line("a", "One."), line("b"), line("a", "One."))
    written(tmp_path / "b.jsonl", line("c"), line("a", "Two."))

    plan = planned(config(tmp_path))
    read = records(plan, config(tmp_path))

    assert counts(plan) == (5, 2, 1, 2, 0)
    assert ids(read) == ["b", "c"]
    assert rejects(read) == [(0, "id_conflict"), (1, "id_conflict")]
    assert str(read[0].reject) == (
        "id_conflict: case 'a' repetition 0 is there with another content"
    )


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, ["a", "b", "c", "d"]),
        ({"agent": "bot"}, ["a", "b", "c"]),
        ({"agent_version": "2"}, ["b", "c"]),
        ({"agent_version": "2", "team": "red"}, ["c"]),
        ({"agent": "other"}, ["d"]),
    ],
)
def test_where_compares_tags_agent_and_version_as_text(tmp_path, where, found):
    path = written(
        tmp_path / "x.jsonl",
        line("a", agent="bot", agent_version="1", tags={"team": "red"}),
        line("b", agent="bot", agent_version="2", tags={"team": "blue"}),
        line("c", agent="bot", agent_version="2", tags={"team": "red"}),
        line("d", tags={"agent": "bot"}),
    )
    chosen = config(path, where=where, agent="other")

    plan = planned(chosen)

    assert ids(records(plan, chosen)) == found
    assert counts(plan) == (4, len(found), 0, 0, 4 - len(found))


def test_a_sample_is_stable_by_case_id_and_grows_with_its_share(tmp_path):
    lines = [line(f"case-{number}") for number in range(1000)]
    forward = written(tmp_path / "forward.jsonl", *lines)
    backward = written(tmp_path / "backward.jsonl", *reversed(lines))

    chosen = {
        (path.stem, share): frozenset(ids(records(planned(part), part)))
        for path in (forward, backward)
        for share in (0.1, 0.5)
        for part in [config(path, sample=share)]
    }

    assert chosen["forward", 0.1] == chosen["backward", 0.1]
    assert chosen["forward", 0.1] < chosen["forward", 0.5]
    assert 60 <= len(chosen["forward", 0.1]) <= 140
    assert 440 <= len(chosen["forward", 0.5]) <= 560


def test_a_limit_takes_the_first_that_are_selected(tmp_path):
    teams = ["red", "blue", "red", "red", "red"]
    lines = [line(f"c{number}", tags={"team": team}) for number, team in enumerate(teams)]
    path = written(tmp_path / "x.jsonl", lines[0], lines[0], *lines[1:], b"{")
    chosen = config(path, where={"team": "red"}, limit=2)

    plan = planned(chosen, shard_size=1)
    read = records(plan, chosen)

    assert counts(plan) == (7, 2, 1, 1, 3)
    assert ids(read) == ["c0", "c2"]
    assert rejects(read) == [(6, "json")]


def test_the_date_chooses_the_folder(tmp_path):
    written(tmp_path / "2026" / "03-09" / "x.jsonl", line("a"))
    dated = config(tmp_path / "{date:%Y}" / "{date:%m-%d}")

    assert planned(dated, date=dt.date(2026, 3, 9)).due == 1
    with pytest.raises(ConfigurationError):
        planned(dated)


def test_progress_tells_the_records_read_so_far(tmp_path):
    written(tmp_path / "a.jsonl", *(line(f"a{number}") for number in range(1500)))
    written(tmp_path / "b.jsonl", line("b"))
    told: list[int] = []

    planned(config(tmp_path), on_progress=told.append)

    assert told == [1000, 1500, 1501]


def test_the_content_hash_is_of_input_and_selection_not_of_place_order_or_shards(
    tmp_path, monkeypatch
):
    plans: dict[str, Plan] = {}
    for machine, names in (("one", "abc"), ("two", "cab")):
        for name in names:
            written(tmp_path / machine / "in" / f"{name}.jsonl", line(name), b"{", line(f"{name}2"))
        monkeypatch.chdir(tmp_path / machine)
        plans[machine] = planned(config("in"), shard_size=1)
        plans[f"{machine} limited"] = planned(config("in", limit=3))
        plans[f"{machine} cut coarsely"] = planned(config("in"))
    written(tmp_path / "two" / "in" / "c.jsonl", line("c"), b"}", line("c2"))
    plans["rewritten"] = planned(config("in"))

    assert plans["one"] == plans["two"]
    assert plans["one limited"] == plans["two limited"]
    assert len({plan.content_hash for plan in plans.values()}) == 3
    assert plans["one"].content_hash == plans["two cut coarsely"].content_hash
