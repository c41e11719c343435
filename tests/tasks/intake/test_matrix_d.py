"""Data faults, row by row; each plan also holds the equations of `Plan.check`.

| row | what is tested | where |
| --- | --- | --- |
| D1 | gzip cut off, bad sum, bytes behind it; salvage | here, `test_objects`, `test_intake_faults` |
| D2 | a line cut off, bad JSON: offset and sha256 | here, `test_intake_faults` |
| D3 | byte order mark, CRLF, blank lines, U+2028 | `test_intake_faults` |
| D4 | not UTF-8, UTF-16, UTF-32, NUL | here, `test_intake_faults` |
| D5 | 50 MB in one turn, 10,000 turns, nesting 10^5 | here |
| D6 | gzip bombs | here |
| D7 | missing and wrong fields, by path | here, `formats/test_native` |
| D8 | copies, and of what | here, `test_intake` |
| D9 | one identity, two contents | `test_intake` |
| D10 | a key twice | `test_matrix_d_records` |
| D11 | times that run backwards, zones, none, the future | `test_matrix_d_records` |
| D12 | unknown role, no turn, no agent turn | `test_matrix_d_records`, `flows/test_evaluate` |
| D13 | calls without result, results without call, malformed arguments | `test_matrix_d_records` |
| D14 | gone after the listing | here, `test_intake_faults`, `test_objects` |
| D15 | overwritten while it is read | here, `test_intake_faults`, `test_objects` |
| D16 | S3: 5xx, throttled, slow, cut off, 403 | `test_matrix_d_s3` |
| D17 | two clients of one bucket | `test_objects_s3` |
| D18 | clocks, zones, daylight saving, leap day | here |
| D19 | a newer version of the format | here |
| D20 | no record, an empty day | here, `test_intake_faults`, `deployments/test_bad_input` |
"""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from assizes.judge.errors import Inconclusive
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unpacking import BOMB_FLOOR_BYTES
from tests.builders import agent, case, user
from tests.tasks.intake.intake_files import config, counts, ids, line, planned, records, written
from tests.tasks.intake.matrix_d import fault_of, faults, intake, timed

PACKED = gzip.compress(
    b"".join(line(name, hashlib.sha512(name.encode()).hexdigest()) + b"\n" for name in "abc"),
    mtime=0,
)
CUT = PACKED[:-40]
BROKEN = {
    "cut off": CUT,
    "wrong sum": PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
    "bytes behind it": PACKED + b"rubbish",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_d1_whole_lines_of_a_broken_gzip_object_are_judged_unless_it_is_switched_off(
    tmp_path: Path, kind: str
):
    (tmp_path / "x.jsonl.gz").write_bytes(BROKEN[kind])
    written(tmp_path / "y.jsonl", line("y"))

    plan, read = intake(config(tmp_path, salvage=False))
    assert (ids(read), faults(read)) == (["y"], [(0, "gzip_corrupt")])
    assert plan.objects == {"listed": 2, "read": 1, "empty": 0, "rejected": 1, "reread": 0}
    assert "salvaged" not in plan.odd

    plan, read = intake(config(tmp_path))
    assert plan.odd["salvaged"] == 1  # a warning of the run says so
    whole = zlib.decompressobj(31).decompress(CUT if kind == "cut off" else PACKED)
    kept = whole.count(b"\n")
    assert kept == (2 if kind == "cut off" else 3)
    assert ids(read) == [*"abc"[:kept], "y"]
    assert faults(read) == [(kept, "gzip_corrupt")]
    assert plan.objects["rejected"] == 0


def test_d1_nothing_is_salvaged_of_an_object_without_a_whole_line_or_of_a_document(tmp_path: Path):
    (tmp_path / "x.jsonl.gz").write_bytes(PACKED[:25])
    (tmp_path / "z.json.gz").write_bytes(gzip.compress(b'[{"task_id": 1, "traj": []},\n')[:-3])
    written(tmp_path / "y.jsonl", line("y"))

    _, read = intake(config(tmp_path))

    assert (ids(read), faults(read)) == (["y"], [(0, "gzip_corrupt"), (0, "gzip_corrupt")])


def test_d2_a_reject_has_its_offset_and_the_sum_of_its_bytes(tmp_path: Path):
    bad = (b"{oops\r\n", line("c")[:-9])
    content = line("a") + b"\n\n" + bad[0] + line("b") + b"\n" + bad[1]
    (tmp_path / "x.jsonl").write_bytes(content)

    _, read = intake(config(tmp_path / "x.jsonl"))

    assert ids(read) == ["a", "b"]
    rejected = [record for record in read if record.reject is not None]
    sums = [hashlib.sha256(one.rstrip(b"\r\n")).hexdigest() for one in bad]
    assert [(r.position, r.offset, r.sha256) for r in rejected] == [
        (1, content.index(bad[0]), sums[0]),
        (3, content.index(bad[1]), sums[1]),
    ]
    with (tmp_path / "x.jsonl").open("rb") as stream:
        stream.seek(rejected[1].offset or 0)
        assert stream.read() == bad[1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("format_", ["auto", "native"])
def test_d4_a_file_of_wide_characters_is_said_to_be_one(tmp_path: Path, encoding, format_):
    text = "".join(line(name).decode() + "\n" for name in "ab")
    (tmp_path / "x.jsonl").write_bytes(text.encode(encoding))
    written(tmp_path / "y.jsonl", line("y"))

    _, read = intake(config(tmp_path, format=format_))

    assert (ids(read), faults(read)) == (["y"], [(0, "encoding")])
    assert "UTF-8" in str(read[0].reject)


def test_d4_a_nul_byte_is_no_text_and_an_escaped_one_is(tmp_path: Path):
    raw = line("b").replace(b"Hello.", b"Hel\0lo.")
    half = line("d").replace(b"Hello.", b"\\ud83d")
    path = written(tmp_path / "x.jsonl", line("a"), raw, line("c", said="Hel\0lo."), half)

    _, read = intake(config(path))

    assert (ids(read), faults(read)) == (["a", "c"], [(1, "encoding"), (3, "encoding")])


SMALL = {"max_record_mb": 1 / 1024}
"""Records of 1024 bytes."""


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b""])
def test_d5_a_record_over_its_cap_is_passed_over_and_those_behind_it_are_judged(
    tmp_path: Path, ends: bytes
):
    big = line("b", said="x" * 3_000_000)
    blank = b" " * 5000 + b"\n"
    tail = b"" if ends == b"" else line("c") + b"\n"
    content = line("a") + b"\n" + blank + big + ends + tail
    (tmp_path / "x.jsonl").write_bytes(content)

    _, read = intake(config(tmp_path / "x.jsonl", **SMALL))

    assert ids(read) == (["a", "c"] if tail else ["a"])
    (reject,) = [record for record in read if record.reject is not None]
    assert (reject.position, reject.reject and reject.reject.code) == (1, "too_large")
    assert reject.offset == content.index(big)
    assert reject.sha256 == hashlib.sha256(big).hexdigest()
    assert reject.excerpt == big[:80].decode()


def test_d5_the_cap_is_of_the_record_without_its_line_end(tmp_path: Path):
    fitting = line("a", said="x" * 900)
    cap = {"max_record_mb": len(fitting) / 2**20}
    path = written(tmp_path / "x.jsonl", fitting, line("b", said="x" * 901), fitting)

    plan, read = intake(config(path, **cap))

    assert (counts(plan), faults(read)) == ((3, 1, 1, 1, 0), [(1, "too_large")])


def test_d5_too_many_turns_too_deep_a_nest_and_too_large_a_document(tmp_path: Path):
    long = case(*[user("Hi."), agent("Yes.")] * 5_000, case_id="long")
    deep = line("deep").replace(b'"Hello."', b"[" * 100_000 + b"]" * 100_000)
    written(tmp_path / "x.jsonl", long.model_dump_json().encode(), deep, line("a"))
    document = [{"task_id": 1, "traj": [{"role": "user", "content": "x" * 3000}]}]
    (tmp_path / "y.json").write_text(json.dumps(document))

    _, read = intake(config(tmp_path, max_document_mb=2 / 1024))

    assert ids(read) == ["a"]
    assert faults(read) == [(0, "too_large"), (1, "too_deep"), (0, "too_large")]
    assert "10000 turns; [transcripts] max_turns allows 5000" in str(read[0].reject)


def test_d5_a_record_of_a_document_has_the_same_cap(tmp_path: Path):
    said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "x" * 2000}]
    document = [
        {"task_id": 1, "reward": 1, "traj": said},
        {"task_id": 2, "reward": 1, "traj": said[:1] * 2},
    ]
    (tmp_path / "x.json").write_text(json.dumps(document))

    _, read = intake(config(tmp_path, **SMALL))

    assert (ids(read), faults(read)) == (["2"], [(0, "too_large")])
    assert read[0].offset is None
    assert len(read[0].sha256 or "") == 64


MEMORY = r"""
import re, sys
from pathlib import Path
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
wanted = TranscriptsConfig(uri=sys.argv[1])
with Spool.of(wanted) as spool:
    plan = plan_intake(wanted, 10, spool)
    read = [one.reject.code for shard in plan.shards for one in read_shard(shard, wanted, spool) if one.reject]
    # Not ru_maxrss: that is inherited from the process that started this one.
    peak_kb = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]
    print(plan.due, *sorted(read), int(peak_kb) // 1024)
"""


def test_d5_d6_fifty_megabytes_in_a_turn_and_bombs_take_little_memory(tmp_path: Path):
    fifty = b"x" * (50 << 20)
    with (tmp_path / "a.jsonl").open("wb") as out:
        out.write(line("a") + b"\n" + line("b").replace(b"Hello.", fifty) + b"\n" + line("c"))
    with gzip.open(tmp_path / "bomb.jsonl.gz", "wb", compresslevel=9) as packed:
        for _ in range(90):
            packed.write(b"0" * (1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    due, *codes, peak_mb = done.stdout.split()

    assert (due, codes) == ("2", ["bomb", "too_large"])
    assert int(peak_mb) <= 512


def test_d6_an_object_that_unpacks_to_too_much_is_a_bomb_and_leaves_nothing(tmp_path: Path):
    lines = [line(f"a{number}") for number in range(2000)]
    written(tmp_path / "x.jsonl.gz", *lines)
    written(tmp_path / "y.jsonl", line("y"))
    wanted = config(tmp_path, max_object_mb=0.01)

    with Spool.of(wanted) as spool:
        plan = plan_intake(wanted, 10, spool)
        left = sorted(path.name for path in spool._folder.path.iterdir())  # what the disk holds

    assert (plan.due, plan.reasons, left) == (1, {"bomb": 1}, [".held"])
    assert BOMB_FLOOR_BYTES < 90 << 20


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({"case_id": "a"}, "transcript: Field required"),
        ({"case_id": None, "transcript": {}}, "case_id: "),
        ({"case_id": "a", "transcript": {"turns": [{"role": "user", "text": 7}]}}, "turns.0.text"),
        ({"case_id": "a", "transcript": None}, "transcript: "),
        ({"case_id": "a", "transcript": {"turns": [{"role": "boss"}]}}, "turns.0.role"),
    ],
)
def test_d7_d12_a_field_that_is_missing_or_wrong_is_named_by_its_path(record, path):
    fault = fault_of(json.dumps(record).encode())

    assert fault.code == "schema"
    assert path in fault.detail


def test_d8_a_copy_says_what_it_is_a_copy_of(tmp_path: Path):
    written(tmp_path / "a.jsonl", line("a"), b"{", line("b"), line("b"))
    written(tmp_path / "b.jsonl", line("c"), line("a"))

    plan, read = intake(config(tmp_path))

    copies = [
        (Path(shard.uri).name, position, of)
        for shard in plan.shards
        for position, of in zip(shard.duplicates, shard.duplicate_of, strict=True)
    ]
    first = (tmp_path / "a.jsonl").as_posix()
    assert copies == [("a.jsonl", 3, f"{first}#2"), ("b.jsonl", 1, f"{first}#0")]
    assert ids(read) == ["a", "b", "c"]


def test_d14_an_object_that_goes_between_listing_and_reading_is_one_reject(tmp_path: Path):
    written(tmp_path / "a.jsonl", *(line(f"a{number}") for number in range(1000)))
    gone = written(tmp_path / "b.jsonl", line("b"))

    plan, read = intake(config(tmp_path), on_progress=lambda _: gone.unlink(missing_ok=True))

    assert (plan.due, faults(read)) == (1000, [(0, "vanished")])
    assert plan.objects["rejected"] == 1


def rewriting(path: Path, *contents: bytes) -> Callable[[int], None]:
    """Told of progress, writes the next content to the file."""
    waiting = list(contents)

    def rewrite(_read: int) -> None:
        if waiting:
            path.write_bytes(waiting.pop(0))

    return rewrite


def test_d15_an_object_that_changes_under_the_reader_is_read_once_more_as_it_is_now(tmp_path):
    path = written(tmp_path / "a.jsonl", *(line(f"old{number}") for number in range(1000)))
    new = line("new") + b"\n{\n"

    plan, read = intake(config(path), on_progress=rewriting(path, new))

    assert (counts(plan), ids(read), faults(read)) == ((2, 1, 0, 1, 0), ["new"], [(1, "json")])
    assert plan.objects["reread"] == 1
    (source,) = list_sources(str(path), {})
    assert {shard.etag for shard in plan.shards} == {source.etag}


def test_d15_an_object_that_changes_twice_is_rejected_as_a_whole(tmp_path: Path):
    many = b"".join(line(f"n{number}") + b"\n" for number in range(1000))
    path = tmp_path / "a.jsonl"
    path.write_bytes(many)
    written(tmp_path / "b.jsonl", line("b"))

    rewrite = rewriting(path, many + line("x"), many + line("y"))
    plan, read = intake(config(tmp_path), on_progress=rewrite)

    assert (ids(read), faults(read)) == (["b"], [(0, "changed")])
    assert plan.read == 2


def test_d15_an_object_that_changes_before_duplicates_are_resolved_is_left_to_its_shard(
    tmp_path: Path,
):
    written(tmp_path / "a.jsonl", line("twin"), line("a"))
    path = written(tmp_path / "b.jsonl", line("twin"), line("b"))
    waiting = [1, 2]  # objects to be read

    def rewrite_after_the_last(_read: int) -> None:
        waiting.pop()
        if not waiting:
            written(path, line("new"))

    plan = planned(config(tmp_path), on_progress=rewrite_after_the_last)
    read = records(plan, config(tmp_path))

    assert (counts(plan), ids(read)) == ((4, 4, 0, 0, 0), ["twin", "a"])
    assert faults(read) == [(0, "changed"), (1, "changed")]


def test_d18_a_plan_does_not_know_the_clock_the_zone_or_the_age_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = written(tmp_path / "2028-02-29" / "x.jsonl", line("a"), timed("b", None, None), b"{")
    dated = config(tmp_path / "{date}")
    leap = dt.date(2028, 2, 29)
    plans = []
    for zone, days in (("UTC", 0), ("America/New_York", -1), ("Pacific/Kiritimati", 1)):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        stamp = time.time() + days * 86_400
        path.touch()
        os.utime(path, (stamp, stamp))
        plans.append(intake(dated, date=leap)[0])
    monkeypatch.undo()
    time.tzset()

    assert plans[0] == plans[1] == plans[2]
    assert counts(plans[0]) == (3, 2, 0, 1, 0)


@pytest.mark.parametrize(("version", "taken"), [(1, True), (2, False), ("1", False), (True, False)])
def test_d19_a_newer_version_of_the_format_is_not_guessed_at(tmp_path: Path, version, taken):
    body = json.loads(line("a")) | {"schema_version": version}
    path = written(tmp_path / "x.jsonl", json.dumps(body).encode(), line("b"))

    _, read = intake(config(path))

    assert ids(read) == (["a", "b"] if taken else ["b"])
    assert faults(read) == ([] if taken else [(0, "schema_version")])


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_d20_no_record_is_no_data_and_exit_code_4(tmp_path: Path, content: bytes):
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(Inconclusive) as raised:
        intake(config(tmp_path))

    assert str(raised.value).startswith("no_data: nothing to judge")
    assert raised.value.exit_code == 4


def test_a_number_beyond_all_bounds_costs_its_record_only(tmp_path: Path):
    endless = line("b").replace(
        b'"text":"Hello."', b'"tool_calls":[{"name":"f","arguments":{"x":1e999}}]'
    )
    path = written(tmp_path / "x.jsonl", line("a"), endless, b"9" * 5000)

    _, read = intake(config(path))

    assert (ids(read), faults(read)) == (["a"], [(1, "json"), (2, "json")])
