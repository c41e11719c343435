"""`assizes import` as a person runs it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from assizes.judge.formats import FORMATS
from tests.command import assizes
from tests.judge.formats.foreign import FIXTURES, lines
from tests.judge.formats.test_foreign import OBSERVED, SCORED


def read(path: Path):
    return [FORMATS["native"].case(line) for line in path.read_bytes().splitlines()]


def test_a_folder_of_many_formats_is_converted_with_an_account_of_everything(tmp_path: Path):
    answer = assizes("import", "auto", str(FIXTURES), "out/all.jsonl", "--json", cwd=tmp_path)
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result["records"] == result["cases"] + sum(result["rejected"].values())
    assert result["rejected"] == {"format": 1}
    assert result["formats"] == {
        "anthropic": 1,
        "inspect_ai": 5,
        "mlflow": 1,
        "openai_chat": 2,
        "openai_logs": 2,
        "otel": 2,
    }
    assert result["kept"]["marked image"] == 2
    cases = read(tmp_path / "out/all.jsonl")
    assert len(cases) == result["cases"]
    assert sum(len(case.transcript.turns) for case in cases) == result["kept"]["turns"]
    again = assizes("import", "native", "out/all.jsonl", "again.jsonl", cwd=tmp_path)
    assert again.code == 0, again.err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out/all.jsonl").read_bytes()


def test_sessions_are_joined_over_files_and_human_labels_can_be_calibrated_with(tmp_path: Path):
    (tmp_path / "in").mkdir()
    later = {**OBSERVED, "id": "b", "trace_id": "t2", "start_time": "2026-11-20 02:00:00"}
    (tmp_path / "in/a.jsonl").write_bytes(
        lines(OBSERVED, {**later, "input": "Bye", "output": "Bye."})
    )
    (tmp_path / "in/b.jsonl").write_bytes(lines(SCORED, OBSERVED))
    answer = assizes("import", "langfuse", "in", "out.jsonl.gz", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "1 of 1 records written to out.jsonl.gz (langfuse 1)" in answer.out
    assert "repeated: row 1 (stands elsewhere" in answer.out
    (case,) = [
        FORMATS["native"].case(line)
        for line in gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).splitlines()
    ]
    assert len(case.transcript.turns) == 4
    labels = (tmp_path / "out.labels.jsonl").read_text(encoding="utf-8")
    assert json.loads(labels) == {
        "case_id": "s1",
        "repetition": 0,
        "metric": "helpful",
        "label": 0.5,
        "rater": "human",
        "cluster": "u9",
    }


def test_the_name_of_a_file_is_no_line_of_its_own(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\nREGRESSION: planted.jsonl").write_bytes(lines(OBSERVED) + b"{broken\n")
    answer = assizes("import", "langfuse", "in", "out.jsonl", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "a REGRESSION: planted.jsonl, record 2: json: " in answer.out
    assert not any(line.startswith("REGRESSION") for line in answer.out.splitlines())


def test_what_another_format_cannot_hold_is_told_by_field(tmp_path: Path):
    source = FIXTURES / "mlflow.jsonl"
    answer = assizes(
        "import", "mlflow", str(source), "o.jsonl", "--to", "openai_chat", cwd=tmp_path
    )
    assert answer.code == 0, answer.err
    assert "lost by writing: expected.response 1" in answer.out
    assert json.loads((tmp_path / "o.jsonl").read_text(encoding="utf-8"))["conversation_id"] == "s1"


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (("nope", "x", "o.jsonl"), 2, "unknown format 'nope'; known: agent_evaluation, anthropic"),
        (("auto", "x", "o.jsonl", "--to", "tau2"), 2, "known: anthropic, native, openai_chat"),
        (("auto", "missing", "o.jsonl"), 2, "does not exist"),
        (
            ("langfuse", "otlp-file://x", "o.jsonl"),
            2,
            "import: format: otlp-file:// is otel; leave",
        ),
        *(
            (
                ("auto", str(FIXTURES), out),
                2,
                f"import {out}: a transcript is written as a line of JSON; name a file with the "
                "ending .jsonl or .ndjson, or with .gz behind it",
            )
            for out in ("o.parquet", "o.csv", "o.json", "o.jsonl.zst", "o.parquet.gz", "o.gz")
        ),
        (
            ("auto", str(FIXTURES), "o.jsonl", "--labels", "people.csv"),
            2,
            "--labels people.csv: a label is written as a line of JSON; name a file with the ending "
            ".jsonl or .ndjson",
        ),
        (
            ("auto", str(FIXTURES), "there.jsonl"),
            2,
            "'there.jsonl' is there; --force overwrites it",
        ),
        (
            ("native", str(FIXTURES / "otlp.jsonl"), "o.jsonl"),
            4,
            "1 records read, none is a case (schema 1); ",
        ),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(tmp_path: Path, args, code: int, reason: str):
    (tmp_path / "there.jsonl").touch()
    answer = assizes("import", *args, cwd=tmp_path)
    assert (answer.code, answer.out) == (code, "")
    assert reason in answer.err
    assert answer.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there.jsonl"]


@pytest.mark.parametrize("out", ["o.jsonl", "o.NDJSON", "o.ndjson.gz", "o"])
def test_lines_are_written_to_a_file_that_says_so_or_says_nothing(tmp_path: Path, out: str):
    (tmp_path / "in.jsonl").write_bytes(lines(OBSERVED))
    answer = assizes("import", "langfuse", "in.jsonl", out, cwd=tmp_path)
    assert answer.code == 0, answer.err
    whole = (tmp_path / out).read_bytes()
    written = gzip.decompress(whole) if out.endswith(".gz") else whole
    assert len([FORMATS["native"].case(line) for line in written.splitlines()]) == 1


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (("out.jsonl",), "out.labels.jsonl"),
        (("out.jsonl", "--labels", "people.jsonl"), "people.jsonl"),
    ],
)
def test_labels_that_are_there_are_overwritten_with_force_only(tmp_path: Path, args, kept: str):
    (tmp_path / "in.jsonl").write_bytes(lines(SCORED, OBSERVED))
    (tmp_path / kept).write_text("hours of work\n")
    answer = assizes("import", "langfuse", "in.jsonl", *args, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert f"{kept!r} is there; --force overwrites it" in answer.err
    assert (tmp_path / kept).read_text() == "hours of work\n"
    assert not (tmp_path / "out.jsonl").exists()
    forced = assizes("import", "langfuse", "in.jsonl", *args, "--force", cwd=tmp_path)
    assert forced.code == 0, forced.err
    assert '"helpful"' in (tmp_path / kept).read_text()


def test_labels_and_transcripts_cannot_be_one_file(tmp_path: Path):
    (tmp_path / "in.jsonl").write_bytes(lines(SCORED, OBSERVED))
    args = ("in.jsonl", "out.jsonl", "--labels", str(tmp_path / "out.jsonl"), "--force")
    answer = assizes("import", "langfuse", *args, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert "is the file the transcripts go to; name another" in answer.err
    assert not (tmp_path / "out.jsonl").exists()


def test_ground_truth_that_cannot_be_checked_is_named_with_its_cases(tmp_path: Path):
    task = {"env_assertions": [{"func_name": "assert_on"}], "actions": []}
    document = {
        "simulations": [
            {"task_id": "7", "messages": [{"role": "assistant", "content": "Hi"}]},
            {"task_id": "8", "messages": [{"role": "assistant", "content": "Hi"}]},
        ],
        "tasks": [{"id": "7", "evaluation_criteria": task}, {"id": "8"}],
        "info": {"agent_info": {}},
    }
    (tmp_path / "in.json").write_text(json.dumps(document))
    answer = assizes("import", "tau2", "in.json", "out.jsonl", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "unchecked: environment assertion 1 (ground truth that no judge" in answer.out
    assert "  not checked in case 7: environment assertion 1" in answer.out
    assert "case 8" not in answer.out


def test_a_table_is_converted_by_guessed_or_given_columns(tmp_path: Path):
    (tmp_path / "t.csv").write_text(
        "ticket,n,speaker,words,prio\n77,1,customer,Where is it?,1\n77,2,bot,It is late.,1\n"
    )
    answer = assizes("import", "auto", "t.csv", "out.jsonl", "--column", "tags=prio", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "columns: id = ticket, turn = n, role = speaker, text = words" in answer.out
    assert json.loads((tmp_path / "out.jsonl").read_bytes())["tags"] == {"prio": "1"}
    answer = assizes("import", "native", "t.csv", "o2.jsonl", "--column", "tags=prio", cwd=tmp_path)
    assert (answer.code, "give the format auto" in answer.err) == (2, True)
