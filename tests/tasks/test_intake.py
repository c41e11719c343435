"""From transcript objects to shards, and from a shard back to its cases."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.case import Expected
from judge.config import TranscriptsConfig
from judge.errors import ConfigurationError, Inconclusive
from tasks.intake import Plan, Record, plan_intake, read_shard
from tasks.objects import Spool
from tests.builders import agent, case, user


def line(case_id: str, said: str = "Hello.", **rest: Any) -> bytes:
    """A native record: a user's question, an agent's answer."""
    spoken = case(user("Hi."), agent(said), case_id=case_id, **rest)
    return spoken.model_dump_json(exclude_defaults=True).encode()


def written(path: Path, *lines: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def config(path: Path | str, **rest: Any) -> TranscriptsConfig:
    return TranscriptsConfig(uri=str(path), **rest)


def planned(config: TranscriptsConfig, shard_size: int = 100, **rest: Any) -> Plan:
    with Spool(config.storage_options) as spool:
        return plan_intake(config, shard_size, spool, **rest)


def records(plan: Plan, config: TranscriptsConfig) -> list[Record]:
    """All records of a plan, each shard read on its own after a round trip through JSON."""
    read: list[Record] = []
    for shard in Plan.from_dict(json.loads(json.dumps(plan.as_dict()))).shards:
        with Spool(config.storage_options) as spool:
            read += read_shard(shard, config, spool)
    return read


def counts(plan: Plan) -> tuple[int, int, int, int, int]:
    return plan.read, plan.due, plan.duplicates, plan.rejected, plan.unselected


def ids(read: Iterable[Record]) -> list[str]:
    return [record.case.case_id for record in read if record.case is not None]


def rejects(read: Iterable[Record]) -> list[tuple[int, str]]:
    return [(r.position, r.reject.code) for r in read if r.reject is not None]


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
    assert (shard.start, shard.stop, shard.unselected, shard.due()) == (0, 5, 1, (0, 4))
    assert (shard.byte_start, shard.byte_stop) == (0, path.stat().st_size)


def test_a_shard_holds_so_many_cases_and_seeks_to_its_first(tmp_path):
    lines = [line(f"case-{number}") for number in range(5)]
    path = written(tmp_path / "x.jsonl", b"", *lines[:2], b"{", b" ", *lines[2:])

    plan = planned(config(path), shard_size=2)

    assert [(shard.start, shard.stop, shard.due()) for shard in plan.shards] == [
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


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbf" + line("a") + b"\n" + line("b"), id="byte order mark"),
        pytest.param(line("a") + b"\r\n" + line("b") + b"\r\n", id="CRLF"),
        pytest.param(b"\n \n" + line("a") + b"\n\t\r\n\n" + line("b") + b"\n\n", id="blank lines"),
        pytest.param(b"\xef\xbb\xbf\n" + line("a") + b"\n" + line("b"), id="mark on a blank line"),
        pytest.param(
            line("a", said="one\u2028two\u0085three") + b"\n" + line("b"), id="U+2028 in a text"
        ),
    ],
)
def test_harmless_oddities_of_line_files_cost_nothing(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)

    plan = planned(config(path), shard_size=1)

    assert counts(plan) == (2, 2, 0, 0, 0)
    assert ids(records(plan, config(path))) == ["a", "b"]


@pytest.mark.parametrize(
    ("bad", "code", "excerpt"),
    [
        (line("b")[:-9], "json", line("b").decode()[:80]),
        (b"plain \x1b[31mtext", "json", r"plain \x1b[31mtext"),
        (b"x" * 500, "json", "x" * 80),
        (b'{"case_id": "caf\xe9"}', "encoding", r'{"case_id": "caf\xe9"}'),
        (b'{"case_id": 7, "transcript": {}}', "schema", '{"case_id": 7, "transcript": {}}'),
        ("\u202e€\x85".encode() * 40, "json", ("\\u202e€\\x85" * 40)[:80]),
    ],
)
def test_a_bad_line_costs_no_good_one_and_is_shown_printable(tmp_path, bad, code, excerpt):
    path = written(tmp_path / "x.jsonl", line("a"), bad, line("c"))

    plan = planned(config(path))
    read = records(plan, config(path))

    assert counts(plan) == (3, 2, 0, 1, 0)
    assert ids(read) == ["a", "c"]
    assert [(r.position, r.reject.code, r.excerpt) for r in read if r.reject] == [
        (1, code, excerpt)
    ]


@pytest.mark.parametrize(
    "bad", [b"garbage", b"[1, 2", line("a")[9:], b"\xff\xfe{", b'"text"', b"y" * 200_000]
)
def test_broken_lines_at_the_start_do_not_hide_the_format(tmp_path, bad):
    path = written(tmp_path / "x.jsonl", bad, bad, line("a"), line("b"))

    plan = planned(config(path))

    assert counts(plan) == (4, 2, 0, 2, 0)
    assert ids(records(plan, config(path))) == ["a", "b"]


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


def test_objects_with_nothing_to_judge_get_no_shard(tmp_path):
    for name in "abc":
        written(tmp_path / f"{name}.jsonl", line(name))
    written(tmp_path / "empty.jsonl")
    written(tmp_path / "blank.jsonl", b" " * 200_000, b"")

    plan = planned(config(tmp_path, limit=1))

    assert counts(plan) == (3, 1, 0, 0, 2)
    assert [Path(shard.uri).name for shard in plan.shards] == ["a.jsonl"]


def test_the_configuration_speaks_for_cases_that_do_not(tmp_path):
    said = Expected(writes=("pay",))
    path = written(
        tmp_path / "x.jsonl",
        line("a"),
        line("b", agent="own", agent_version="7", expected=said),
        line("c", tools=({"name": "pay", "writes": True},)),
    )
    chosen = config(path, agent="bot", agent_version="1", writes=("book", "cancel"))

    read = records(planned(chosen), chosen)

    assert [
        (c.agent, c.agent_version, c.expected.writes) for r in read if (c := r.case) is not None
    ] == [
        ("bot", "1", ("book", "cancel")),
        ("own", "7", ("pay",)),
        ("bot", "1", None),
    ]


def test_an_object_that_cannot_be_read_is_one_reject_and_the_others_go_on(tmp_path):
    written(tmp_path / "a.jsonl", line("a"))
    packed = written(tmp_path / "b.jsonl.gz", line("b"), line("c"))
    packed.write_bytes(packed.read_bytes()[:-5])
    written(tmp_path / "c.json", b'"what is this"')
    written(tmp_path / "d.json", b'[{"task_id": 1, "reward": 0}, ')
    written(tmp_path / "e.jsonl", line("e"))

    plan = planned(config(tmp_path))
    read = records(plan, config(tmp_path))

    assert counts(plan) == (5, 2, 0, 3, 0)
    assert ids(read) == ["a", "e"]
    assert [(r.position, r.reject.code, r.excerpt) for r in read if r.reject] == [
        (0, "gzip_corrupt", ""),
        (0, "format", '"what is this"\\n'),
        (0, "json", '[{"task_id": 1, "reward": 0}, \\n'),
    ]


@pytest.mark.data
def test_a_bad_record_of_a_document_costs_no_good_one(data, tmp_path):
    packed = (data / "tau_bench_airline" / "gpt-4o-airline.json.gz").read_bytes()
    first, second, *_ = json.loads(gzip.decompress(packed))
    path = tmp_path / "x.json"
    path.write_text(json.dumps([first, {"task_id": "caf\u00e9\u0007"}, second]))

    plan = planned(config(path), shard_size=1)
    read = records(plan, config(path))

    assert counts(plan) == (3, 2, 0, 1, 0)
    assert [(shard.start, shard.stop, shard.byte_start) for shard in plan.shards] == [
        (0, 2, None),
        (2, 3, None),
    ]
    assert [(r.position, r.excerpt) for r in read if r.reject] == [
        (1, '{"task_id": "caf\u00e9\\u0007"}')
    ]


@pytest.mark.parametrize("fault", ["changed", "vanished"])
def test_each_promised_record_of_an_object_that_went_away_is_a_reject(tmp_path, fault):
    path = written(tmp_path / "x.jsonl", line("a"), line("a"), b"{", line("b"), line("c"))
    plan = planned(config(path), shard_size=2)
    path.unlink()
    if fault == "changed":
        written(path, line("other"))

    read = records(plan, config(path))

    assert rejects(read) == [(0, fault), (2, fault), (3, fault), (4, fault)]
    assert len(read) == plan.due + plan.rejected


@pytest.mark.parametrize(
    ("lines", "rest", "message"),
    [
        ((), {}, "0 records read, 0 rejected (none), 0 not selected"),
        (
            (b"{", line("a", "One."), line("a", "Two."), b"\xff"),
            {"format": "native"},
            "4 records read, 4 rejected (encoding 1, id_conflict 2, json 1), 0 not selected",
        ),
        (
            (line("a"),),
            {"where": {"team": "red"}},
            "1 records read, 0 rejected (none), 1 not selected",
        ),
    ],
)
def test_a_plan_without_a_case_is_inconclusive_and_says_why(tmp_path, lines, rest, message):
    path = written(tmp_path / "x.jsonl", *lines)

    with pytest.raises(Inconclusive) as raised:
        planned(config(path, **rest))

    assert str(raised.value) == f"no_data: nothing to judge in {str(path)!r}: {message}"


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


GOOD = st.tuples(st.sampled_from("abcde"), st.sampled_from(["One.", "Two."]))
BAD = st.sampled_from([b"{", b"\xff\xfe", b"null", b'{"case_id": "a"}', b"[]", b"\x00"])
BLANK = st.sampled_from([b"", b"  ", b"\t\r"])
FILES = st.lists(st.lists(st.one_of(GOOD, GOOD, BAD, BLANK), max_size=12), min_size=1, max_size=3)


def lawful_counts(files: Sequence[Sequence[Any]]) -> tuple[int, int, int, int, int]:
    """The counts as the rules say them, without a selection."""
    lines = [entry for file in files for entry in file]
    good = [entry for entry in lines if isinstance(entry, tuple)]
    bad = sum(isinstance(entry, bytes) and bool(entry.strip()) for entry in lines)
    variants = Counter(case_id for case_id, _ in set(good))
    due = sum(number == 1 for number in variants.values())
    conflicts = sum(number for number in variants.values() if number > 1)
    duplicates = len(good) - len(set(good))
    return len(good) + bad, due, duplicates, bad + conflicts, 0


@settings(deadline=None, max_examples=150)
@given(files=FILES, shard_size=st.integers(1, 4))
def test_counts_reconcile_and_a_bad_line_never_costs_a_good_one(files, shard_size):
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(files):
            lines = [line(*entry) if isinstance(entry, tuple) else entry for entry in file]
            written(Path(folder, f"{number}.jsonl"), *lines)
        chosen = config(folder, format="native")
        lawful = lawful_counts(files)
        if not lawful[1]:
            with pytest.raises(Inconclusive):
                planned(chosen)
            return

        plan = planned(chosen, shard_size)
        read = records(plan, chosen)

    assert counts(plan) == lawful
    assert len(ids(read)) == len(set(ids(read))) == plan.due
    assert len(rejects(read)) == plan.rejected
    assert max(len(shard.due()) for shard in plan.shards) <= shard_size
    assert len({shard.shard_id for shard in plan.shards}) == len(plan.shards)


@settings(deadline=None, max_examples=100)
@given(
    files=FILES,
    shard_size=st.integers(1, 4),
    sample=st.floats(0.2, 1),
    limit=st.none() | st.integers(1, 4),
    where=st.sampled_from([{}, {"said": "One."}]),
)
def test_a_selection_moves_records_only_from_due_to_unselected(
    files, shard_size, sample, limit, where
):
    with tempfile.TemporaryDirectory() as folder:
        for number, file in enumerate(files):
            lines = [
                line(*entry, tags={"said": entry[1]}) if isinstance(entry, tuple) else entry
                for entry in file
            ]
            written(Path(folder, f"{number}.jsonl"), *lines)
        chosen = config(folder, format="native", sample=sample, limit=limit, where=where)
        everything = lawful_counts(files)
        try:
            plan = planned(chosen, shard_size)
        except Inconclusive:
            return
        read = records(plan, chosen)

    assert plan.read == everything[0] == sum(counts(plan)[1:])
    if not where:
        assert (plan.duplicates, plan.rejected) == everything[2:4]
        assert plan.due + plan.unselected == everything[1]
    assert plan.due <= (limit or plan.read)
    assert (len(ids(read)), len(rejects(read))) == (plan.due, plan.rejected)


def test_intake_from_s3_is_intake_from_a_folder(s3, tmp_path):
    bucket = s3.bucket()
    for name in ("a.jsonl", "b.jsonl.gz"):
        path = written(tmp_path / name, line(name), b"{", line(name), line(f"{name}-2"))
        s3.client.upload_file(str(path), bucket, f"in/{name}")
    local, remote = (
        config(tmp_path),
        config(f"s3://{bucket}/in", storage_options=s3.storage_options),
    )

    here, there = planned(local, shard_size=1), planned(remote, shard_size=1)

    assert counts(here) == counts(there) == (8, 4, 2, 2, 0)
    assert [shard.uri for shard in there.shards] == [
        f"s3://{bucket}/in/{Path(shard.uri).name}" for shard in here.shards
    ]
    assert ids(records(there, remote)) == ids(records(here, local))
    assert rejects(records(there, remote)) == rejects(records(here, local))


@pytest.mark.parametrize("fault", ["changed", "vanished"])
def test_an_object_on_s3_that_went_away_after_the_plan_is_rejected(s3, fault):
    bucket = s3.bucket()
    s3.client.put_object(Bucket=bucket, Key="x.jsonl", Body=line("a") + b"\n" + line("b"))
    remote = config(f"s3://{bucket}/x.jsonl", storage_options=s3.storage_options)
    plan = planned(remote)
    s3.client.delete_object(Bucket=bucket, Key="x.jsonl")
    if fault == "changed":
        s3.client.put_object(Bucket=bucket, Key="x.jsonl", Body=line("other"))

    assert rejects(records(plan, remote)) == [(0, fault), (1, fault)]


@pytest.mark.data
def test_a_tau_bench_file_gives_its_200_cases(data):
    whole = config(data / "tau_bench_airline" / "gpt-4o-airline.json.gz")
    one_trial = whole.model_copy(update={"where": {"trial": "0"}})

    plan, part = planned(whole, shard_size=64), planned(one_trial, shard_size=64)

    assert counts(plan) == (200, 200, 0, 0, 0)
    assert [len(shard.due()) for shard in plan.shards] == [64, 64, 64, 8]
    assert len(set(identities(records(plan, whole)))) == 200
    assert counts(part) == (200, 50, 0, 0, 150)
    assert len(ids(records(part, one_trial))) == 50


@pytest.mark.data
def test_the_tau2_files_give_their_240_cases(data):
    cases = {}
    for path in sorted((data / "tau2_airline").glob("*.json.gz")):
        plan = planned(config(path), shard_size=64)
        assert counts(plan) == (plan.read, plan.read, 0, 0, 0)
        cases[path.name] = len(set(identities(records(plan, config(path)))))

    assert cases == {
        "claude-sonnet-4.5.json.gz": 50,
        "gpt-4.1-finetuned.json.gz": 20,
        "gpt-4.1.json.gz": 20,
        "gpt-4o.json.gz": 50,
        "gpt-oss-120b.json.gz": 50,
        "qwen2.5-7b.json.gz": 50,
    }


@pytest.mark.data
def test_six_agents_on_the_same_tasks_cannot_be_one_run(data):
    folder = data / "tau2_airline"

    with pytest.raises(Inconclusive) as raised:
        planned(config(folder))

    assert str(raised.value) == (
        f"no_data: nothing to judge in {str(folder)!r}: "
        "240 records read, 240 rejected (id_conflict 240), 0 not selected"
    )


@pytest.mark.data
def test_one_of_six_agents_in_a_folder_can_be_meant(data):
    plan = planned(config(data / "tau2_airline", where={"agent": "claude-sonnet-4-5"}))

    assert (plan.read, plan.due, plan.unselected) == (240, 50, 190)


def identities(read: Iterable[Record]) -> list[tuple[str, int]]:
    return [(r.case.case_id, r.case.repetition) for r in read if r.case is not None]
