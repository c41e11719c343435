"""Records and objects that cannot be read cost no others."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from assizes.judge.case import Expected
from assizes.judge.errors import Inconclusive
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
        (
            (),
            {},
            "0 records read, 0 rejected (none), 0 not selected; the files are empty; [transcripts] uri "
            "names others",
        ),
        (
            (b"{", line("a", "One."), line("a", "Two."), b"\xff"),
            {"format": "native"},
            "4 records read, 4 rejected (encoding 1, id_conflict 2, json 1), 0 not selected; "
            "PATH, record 1: json: not JSON: EOF while parsing an object at line 1 column 1; "
            "PATH, record 4: encoding: not UTF-8: byte 0 (invalid start byte); save the file as "
            "UTF-8; "
            "PATH, record 2: id_conflict: another record has the same case id and repetition, and "
            "other content; once they are mended, `assizes doctor` reads them again",
        ),
        (
            (line("a"),),
            {"where": {"team": "red"}},
            "1 records read, 0 rejected (none), 1 not selected; [transcripts] where, filter, sample and "
            "since_last say what is judged",
        ),
    ],
)
def test_a_plan_without_a_case_is_inconclusive_and_says_why(tmp_path, lines, rest, message):
    path = written(tmp_path / "x.jsonl", *lines)

    with pytest.raises(Inconclusive) as raised:
        planned(config(path, **rest))

    assert str(raised.value) == (
        f"no_data: nothing to judge in {str(path)!r}: {message.replace('PATH', str(path))}"
    )
