"""Foreign transcripts through the intake: archives, pieces of conversations, manifests, mixed files."""

from __future__ import annotations

import gzip
import json
import resource
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats import native_line
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import ShardRecord, plan_intake, read_shard
from assizes.tasks.sources import unpacking
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unpacking import ObjectBounds
from tests.builders import agent, call, case, result, user
from tests.doubles.s3 import S3
from tests.judge.formats.foreign import FIXTURES, lines
from tests.judge.formats.test_foreign import OBSERVED, SCORED


def taken_in(uri: Path | str, **rest: Any) -> tuple[Plan, list[ShardRecord]]:
    """The plan over a place, and every record that its shards give back."""
    config = TranscriptsConfig(uri=str(uri), **rest)
    with Spool.of(config) as spool:
        plan = plan_intake(config, 2, spool)
        again = Plan.from_dict(json.loads(json.dumps(plan.as_dict())))
        assert again == plan
        return plan, [one for shard in plan.shards for one in read_shard(shard, config, spool)]


def ids(records: list[ShardRecord]) -> list[str]:
    return [record.case.case_id for record in records if record.case is not None]


def chat(name: str, text: str) -> dict[str, Any]:
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}]
    return {"id": name, "messages": said}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("openai_chat.jsonl", 2),
        ("openai_logs.jsonl", 2),
        ("anthropic.json", 1),
        ("otlp.jsonl", 1),
        ("otel_spans.jsonl", 1),
        ("openinference.jsonl", 1),
        ("mlflow.jsonl", 1),
        ("inspect_ai.json", 2),
        ("inspect_ai.eval", 2),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_fixture_is_planned_and_read_without_being_told_its_format(
    tmp_path: Path, name: str, wanted: int, packed: bool
):
    place = tmp_path / (f"{name}.gz" if packed else name)
    data = (FIXTURES / name).read_bytes()
    place.write_bytes(gzip.compress(data) if packed else data)
    plan, records = taken_in(place)
    assert (plan.read, plan.due, plan.rejected) == (wanted, wanted, 0)
    assert len(ids(records)) == wanted
    assert plan.kept["turns"] == sum(
        len(record.case.transcript.turns) for record in records if record.case
    )


def test_both_containers_of_an_inspect_log_hold_the_same_cases():
    from_zip = taken_in(FIXTURES / "inspect_ai.eval")[1]
    from_json = taken_in(FIXTURES / "inspect_ai.json")[1]
    assert [one.case for one in from_zip] == [one.case for one in from_json]


def test_parquet_is_read_as_its_rows(tmp_path: Path):
    rows = [chat(f"c{number}", f"Hello {number}") for number in range(5)]
    pl.DataFrame(rows).write_parquet(tmp_path / "x.parquet", row_group_size=2)
    plan, records = taken_in(tmp_path)
    assert (plan.read, plan.due) == (5, 5)
    assert ids(records) == ["c0", "c1", "c2", "c3", "c4"]
    assert records[3].case is not None
    assert records[3].case.transcript.response() == "Hello 3"


def test_native_cases_in_parquet_may_leave_out_what_other_rows_have(tmp_path: Path):
    told = [case(user("Hi"), agent("Yes", latency_ms=5.0), case_id="a", tags={"k": "v"})]
    told.append(case(agent("No", calls=[call("look", n=1)]), result("1"), case_id="b"))
    rows = [json.loads(native_line(one)) for one in told]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(tmp_path / "x.parquet")
    _, records = taken_in(tmp_path)
    assert [record.case for record in records] == told


def test_langfuse_in_parquet_by_its_manifest_reads_what_the_manifest_names(tmp_path: Path):
    root = tmp_path / "export" / "project"
    for folder in ("observations_v2", "scores", "manifests"):
        (root / folder).mkdir(parents=True)
    later = {**OBSERVED, "id": "ob9", "trace_id": "t2", "start_time": "2026-11-20 03:00:00"}
    rows = [OBSERVED, {**later, "input": "Thanks", "output": "Welcome."}]
    pl.DataFrame(rows).write_parquet(root / "observations_v2" / "a.parquet")
    (root / "observations_v2" / "half.jsonl").write_bytes(lines({**OBSERVED, "id": "x"})[:40])
    (root / "scores" / "a.jsonl").write_bytes(lines(SCORED))
    keys = ["prefix/project/observations_v2/a.parquet", "prefix/project/scores/a.jsonl"]
    manifest = {"version": 1, "files": [{"key": key} for key in keys]}
    (root / "manifests" / "a.json").write_text(json.dumps(manifest), encoding="utf-8")
    plan, records = taken_in(root / "manifests")
    assert (plan.read, plan.due, plan.rejected) == (1, 1, 0)
    (found,) = (record.case for record in records)
    assert found is not None
    assert [turn.role for turn in found.transcript.turns] == ["user", "assistant"] * 2
    assert found.labels == {"helpful": 0.5}
    (root / "scores" / "a.jsonl").unlink()
    config = TranscriptsConfig(uri=str(root / "manifests"))
    with Spool.of(config) as spool, pytest.raises(Exception, match="vanished"):
        plan_intake(config, 2, spool)


def test_a_score_above_1_tells_the_scale_of_its_name_in_all_objects_of_a_manifest(tmp_path: Path):
    def rows(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        own = {"trace_id": f"t{number}", "session_id": f"s{number}"}
        seen = {**OBSERVED, **own, "id": f"o{number}"}
        return seen, {**SCORED, **own, "id": f"x{number}", "name": "stars", "value": number}

    for folder in ("scores", "manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "scores" / "a.jsonl").write_bytes(lines(*rows(1), SCORED, OBSERVED))
    (tmp_path / "scores" / "b.jsonl").write_bytes(lines(*rows(5)))
    keys = [{"key": f"scores/{name}.jsonl"} for name in "ab"]
    (tmp_path / "manifests" / "a.json").write_text(json.dumps({"files": keys}), encoding="utf-8")
    found = [record.case for record in taken_in(tmp_path / "manifests")[1] if record.case]
    assert {each.case_id: each.labels for each in found} == {"s1": {"helpful": 0.5}, "s5": {}}


@pytest.mark.parametrize("stray", ["[[]]", "[]", "[1]", '[{"x": 1}]', '[ {"trace_id": "t"} ]'])
@pytest.mark.parametrize("name", ["langfuse", "mlflow", "otel_spans", "openai_logs"])
def test_a_list_among_the_pieces_is_one_reject(tmp_path: Path, name: str, stray: str):
    place = tmp_path / "x.jsonl"
    fixture = FIXTURES / f"{name}.jsonl"
    good = lines(OBSERVED) if name == "langfuse" else fixture.read_bytes()
    place.write_bytes(good)
    wanted = taken_in(place)[0].due
    place.write_bytes(good + f"{stray}\n".encode())
    plan, records = taken_in(place)
    assert (plan.due, plan.rejected, plan.reasons) == (wanted, 1, {"schema": 1})
    (reject,) = (record for record in records if record.reject is not None)
    assert reject.excerpt.rstrip() == stray


def test_what_a_manifest_names_is_pinned_with_it(tmp_path: Path):
    root = tmp_path / "export" / "project"
    for folder in ("observations_v2", "manifests"):
        (root / folder).mkdir(parents=True)
    other = {**OBSERVED, "id": "ob9", "trace_id": "t2"}
    (root / "observations_v2" / "a.jsonl").write_bytes(lines(OBSERVED, other))
    manifest = {"files": [{"key": "prefix/project/observations_v2/a.jsonl"}]}
    (root / "manifests" / "a.json").write_text(json.dumps(manifest), encoding="utf-8")
    config = TranscriptsConfig(uri=str(root / "manifests"))
    with Spool.of(config) as spool:
        plan = plan_intake(config, 1, spool)
        assert plan_intake(config, 1, spool) == plan
    assert [shard.named is not None for shard in plan.shards] == [True]
    (root / "observations_v2" / "a.jsonl").write_bytes(lines({**OBSERVED, "output": "!"}, other))
    with Spool.of(config) as spool:
        found = [one for shard in plan.shards for one in read_shard(shard, config, spool)]
        assert plan_intake(config, 1, spool).content_hash != plan.content_hash
    assert [one.reject and one.reject.code for one in found] == ["changed"] * plan.due
    assert plan.due == 1


def test_a_manifest_on_s3_is_followed_to_its_files(s3: S3):
    bucket = s3.bucket()
    keys = [f"prefix/p/{name}" for name in ("observations_v2/a.jsonl", "scores/a.jsonl")]
    for key, row in zip(keys, (OBSERVED, SCORED), strict=True):
        s3.client.put_object(Bucket=bucket, Key=key, Body=lines(row))
    manifest = json.dumps({"files": [{"key": key} for key in keys]}).encode()
    s3.client.put_object(Bucket=bucket, Key="prefix/p/manifests/a.json", Body=manifest)
    options = {"storage_options": s3.storage_options}
    plan, records = taken_in(f"s3://{bucket}/prefix/p/manifests", **options)
    assert (plan.read, plan.due) == (1, 1)
    assert records[0].case is not None
    assert records[0].case.labels == {"helpful": 0.5}


def test_a_file_of_mixed_and_foreign_lines_has_the_right_counts_and_reasons(tmp_path: Path):
    good = [json.dumps(chat(f"c{number}", "Hello")).encode() for number in range(3)]
    bad = [
        b'{"messages": [{"role": "robot"}]}',
        b'{"some": "thing"}',
        b"[1, 2]",
        b"no JSON",
        b'{"messages": [], "messages": []}',
        native_line(case(user("Hi"), agent("Hello"))).rstrip(),
    ]
    place = tmp_path / "mixed.jsonl"
    place.write_bytes(b"\n".join([good[0], *bad, *good[1:], good[1], b""]))
    plan, records = taken_in(place)
    assert (plan.read, plan.due, plan.duplicates, plan.rejected) == (10, 3, 1, 6)
    assert plan.reasons == {"duplicate_key": 1, "json": 1, "schema": 4}
    assert ids(records) == ["c0", "c1", "c2"]
    details = [record.reject.detail for record in records if record.reject]
    assert [one for one in details if "robot" in one]
    assert details[1] == "messages: missing"


def test_pieces_that_are_none_are_rejects_of_their_own_and_cost_nothing_else(tmp_path: Path):
    place = tmp_path / "spans.jsonl"
    spans = (FIXTURES / "otel_spans.jsonl").read_bytes()
    place.write_bytes(spans + b'{"x": 1}\nbroken\n')
    plan, records = taken_in(place, format="otel")
    assert (plan.read, plan.due) == (3, 1)
    assert plan.reasons == {"json": 1, "schema": 1}
    assert [record.reject.code for record in records if record.reject] == ["schema", "json"]


def test_what_claims_to_be_an_archive_and_is_none_is_one_reject_with_its_reason(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 this is no Parquet PAR1")
    (tmp_path / "b.eval").write_bytes(b"PK\x03\x04 no zip")
    shutil.make_archive(str(tmp_path / "c"), "zip", FIXTURES, "versions.json")
    (tmp_path / "c.zip").rename(tmp_path / "c.eval")
    (tmp_path / "d.jsonl").write_bytes(lines(chat("c1", "Hello")))
    plan, records = taken_in(tmp_path)
    assert (plan.read, plan.due) == (4, 1)
    assert plan.reasons == {"archive": 2, "parquet": 1}
    assert plan.objects["rejected"] == 3
    assert {record.reject.code for record in records if record.reject} == {"archive", "parquet"}


@pytest.mark.parametrize("name", ["x.parquet", "inspect_ai.eval"])
def test_an_archive_over_the_bound_is_a_bomb(tmp_path: Path, name: str):
    if name.endswith("eval"):
        shutil.copy(FIXTURES / name, tmp_path / name)
    else:
        rows = [{"messages": "x" * 1000}] * 2000
        pl.DataFrame(rows).write_parquet(tmp_path / name)
    target = tmp_path / "out"
    with pytest.raises(DataError) as refused:
        unpacking.archive_to_lines(tmp_path / name, target, ObjectBounds(object_bytes=2000))
    assert refused.value.code == "bomb"


def packed_again(source: Path, target: Path, packing: int) -> None:
    """The same archive with its members packed in another way."""
    with unpacking.zipfile.ZipFile(source) as given:
        members = {name: given.read(name) for name in given.namelist()}
    with unpacking.zipfile.ZipFile(target, "w", compression=packing) as made:
        for name, body in members.items():
            made.writestr(name, body)


@pytest.mark.parametrize("packing", [0, 8, 12, 14, 93])
def test_an_archive_with_a_damaged_bit_is_read_or_refused_and_ends_nothing(
    tmp_path: Path, packing: int
):
    packed_again(FIXTURES / "inspect_ai.eval", tmp_path / "good.eval", packing)
    good = (tmp_path / "good.eval").read_bytes()
    codes = set()
    for place in range(4, len(good), max(1, len(good) // 250)):
        damaged = bytearray(good)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "bad.eval").write_bytes(damaged)
        try:
            unpacking.archive_to_lines(tmp_path / "bad.eval", tmp_path / "out", ObjectBounds())
        except DataError as refused:
            codes.add(refused.code)
    assert codes == {"archive"}


def test_one_damaged_archive_costs_one_object(tmp_path: Path):
    packed_again(FIXTURES / "inspect_ai.eval", tmp_path / "a.eval", 8)
    damaged = bytearray((tmp_path / "a.eval").read_bytes())
    with unpacking.zipfile.ZipFile(tmp_path / "a.eval") as archive:
        begins = archive.getinfo("samples/s1_epoch_1.json").header_offset + 60
    damaged[begins : begins + 40] = bytes(40)
    (tmp_path / "a.eval").write_bytes(damaged)
    (tmp_path / "b.jsonl").write_bytes(lines(chat("c1", "Hello")))
    plan, _ = taken_in(tmp_path)
    assert (plan.read, plan.due, plan.reasons) == (2, 1, {"archive": 1})


def test_a_member_that_unpacks_too_far_is_a_bomb_before_it_is_on_the_disk(tmp_path: Path):
    with unpacking.zipfile.ZipFile(tmp_path / "a.eval", "w", compression=8) as made:
        made.writestr("header.json", "{}")
        with made.open("samples/1.json", "w") as member:
            for _ in range(100):
                member.write(b" " * (1 << 20))
    with pytest.raises(DataError, match="unpack to more than") as refused:
        unpacking.archive_to_lines(tmp_path / "a.eval", tmp_path / "out", ObjectBounds())
    assert refused.value.code == "bomb"
    assert (tmp_path / "out").stat().st_size <= unpacking.BOMB_FLOOR_BYTES + (1 << 20)


def test_a_header_that_is_no_header_is_not_held_in_memory(tmp_path: Path):
    with unpacking.zipfile.ZipFile(tmp_path / "a.eval", "w") as made:
        made.writestr("header.json", b" " * (2 << 20))
    with pytest.raises(DataError, match="max_document_mb") as refused:
        unpacking.archive_to_lines(
            tmp_path / "a.eval", tmp_path / "out", ObjectBounds(document_bytes=1 << 20)
        )
    assert refused.value.code == "too_large"


def test_a_parquet_file_that_takes_for_ever_is_refused_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unpacking, "_TIME_S", 1)
    writes = "import sys, time; open(sys.argv[2] + '.raw', 'wb').write(b'1'); time.sleep(60)"
    monkeypatch.setattr(unpacking, "_TO_LINES", writes)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="within 1 s"):
        unpacking.archive_to_lines(tmp_path / "a.parquet", tmp_path / "out", ObjectBounds())
    assert [one.name for one in tmp_path.iterdir()] == ["a.parquet"]


def test_a_full_disk_is_the_fault_of_no_archive(tmp_path: Path):
    (source,) = list_sources(str(FIXTURES / "inspect_ai.eval"), {})
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Spool() as spool:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most[1]))
            with pytest.raises(ConfigurationError, match="no room in"):
                spool.lines_path(source)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        assert spool.lines_path(source).read_bytes().count(b"\n") == 2


@pytest.mark.data
def test_published_result_files_are_taken_in_without_configuration(data: Path, tmp_path: Path):
    read = 0
    for path in sorted((data / "tau2_airline").glob("*.json.gz")):
        plan, records = taken_in(path)
        assert (plan.due, plan.rejected) == (plan.read, 0)
        assert len(ids(records)) == plan.due
        read += plan.read
    assert read == 240
    shutil.copytree(data / "tau_bench_airline", tmp_path / "tau")
    plan, records = taken_in(tmp_path / "tau")
    assert (plan.read, plan.due) == (251, 200)
    assert plan.reasons == {"format": 1, "schema": 50}
    assert (plan.kept["tool_calls"], plan.kept["tool_results"]) == (1164, 1164)
