"""Files made to exhaust or to crash whoever reads them: one clear line each, in bounded memory."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from assizes.deployments.settings import MAX_FILE_BYTES, read_config
from assizes.judge.config.gates import LabelColumns
from assizes.judge.config.transcripts import GroundTruthConfig, TranscriptsConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.judge.formats import native_line
from assizes.judge.rubrics.rubric import toml_table
from assizes.tasks.intake.preprocessing import ground_truth
from assizes.tasks.intake.run_sources import transcript_sources
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.runs.labels.labels_and_grades import read_labels
from assizes.tasks.sources import spool
from assizes.tasks.sources.spool import Spool
from tests.builders import agent, call, case, result, user
from tests.command import ROOT

DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 20_000
FINE = native_line(case(user("Hi"), agent("Hello"), case_id="fine"))
KEYS = "{" + ",".join(f'"k{n}":1' for n in range(200_000)) + "}"

LINES: dict[str, tuple[str, str | None]] = {
    "deep list": (DEEP, "too_deep"),
    "deep object": ('{"a":' * 50_000 + "1" + "}" * 50_000, "too_deep"),
    "never closed": ("[" * 500_000, "too_deep"),
    "deep inside": ('{"case_id": "x", "metadata": ' + DEEP + "}", "too_deep"),
    "exponent": ('{"case_id": "x", "metadata": {"a": 1e999}}', "schema"),
    "nan": ('{"case_id": "x", "metadata": {"a": NaN}}', "json"),
    "many keys": (KEYS, "schema"),
    "one key many times": ("{" + ",".join(['"a":1'] * 100_000) + "}", "duplicate_key"),
    "long key": ('{"' + "k" * 2_000_000 + '": 1}', "schema"),
    "nul": ('{"case_id": "a\x00b"}', "encoding"),
    "lone surrogate": ('{"case_id": "\\ud800"}', "encoding"),
    "many turns": (json.dumps({"case_id": "x", "transcript": {"turns": [{"role": "user", "text": "x"}] * 6000}}), "too_large"),
}  # fmt: skip


def planned(uri: Path, **rest: object) -> dict[str, int]:
    config = TranscriptsConfig.model_validate({"uri": str(uri), **rest})
    with Spool.of(config) as spool:
        plan = plan_intake(config, 10, spool)
    assert plan.due == 1, plan.reasons
    return plan.reasons


@pytest.mark.parametrize("kind", LINES)
def test_a_bomb_in_a_line_costs_its_record_only(tmp_path: Path, kind: str):
    text, code = LINES[kind]
    (tmp_path / "t.jsonl").write_bytes(FINE + text.encode("utf-8", "surrogatepass") + b"\n")
    assert planned(tmp_path, format="native") == {code: 1}


def test_a_number_of_many_digits_is_read_or_refused_and_never_a_crash(tmp_path: Path):
    line = '{"case_id": "x", "metadata": {"a": ' + DIGITS + "}}"
    (tmp_path / "t.jsonl").write_bytes(FINE + line.encode() + b"\n")
    assert sum(planned(tmp_path, format="native").values()) == 1


@pytest.mark.parametrize(
    "text", [DEEP, KEYS, DIGITS, '{"a":' * 5000, "x" * 3_000_000, '"' + "\\" * 100_001]
)
def test_a_bomb_inside_a_text_is_a_text(tmp_path: Path, text: str):
    """Judges read JSON out of what tools return; it may be anything."""
    from assizes.judge.evidence.steps import json_value, steps_of

    one = case(
        user(text),
        agent(text, calls=[call("find", query=text)]),
        result(text, name="find"),
        agent("Done."),
    )
    assert json_value(text) is None or len(text) > 0
    assert steps_of(one.transcript)


def _zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)


def _archive_bombs() -> dict[str, Callable[[Path], None]]:
    header = b'{"eval": {}}'
    big = b"0" * (80 << 20)
    nested = gzip.compress(gzip.compress(big))
    return {
        "gzip.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b"0" * (96 << 20))) and None,
        "members.jsonl.gz": lambda path: path.write_bytes(gzip.compress(b"0" * (2 << 20)) * 50) and None,
        "nested.jsonl.gz": lambda path: path.write_bytes(nested) and None,
        "sample.eval": lambda path: _zip(path, {"header.json": header, "samples/a.json": big}),
        "samples.eval": lambda path: _zip(
            path, {"header.json": header, **{f"samples/{n}.json": b"0" * (4 << 20) for n in range(25)}}
        ),
        "header.eval": lambda path: _zip(path, {"header.json": big}),
        "deep.eval": lambda path: _zip(path, {"header.json": DEEP.encode(), "samples/a.json": b"{}"}),
        "table.parquet": lambda path: pl.DataFrame({"a": ["x" * 4000] * 20_000}).write_parquet(path),
    }  # fmt: skip


ARCHIVES = _archive_bombs()


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_bomb_is_one_reject_and_costs_no_other_object(tmp_path: Path, name: str):
    ARCHIVES[name](tmp_path / name)
    (tmp_path / "fine.jsonl").write_bytes(FINE)
    assert (tmp_path / name).stat().st_size < 3 << 20
    reasons = planned(tmp_path, max_object_mb=64)
    assert sum(reasons.values()) == 1
    assert set(reasons) <= {
        "bomb",
        "archive",
        "json",
        "too_deep",
        "format",
        "encoding",
        "too_large",
    }


def crashing(tmp_path: Path) -> list[Path]:
    """Parquet with bytes turned over all along, and with lies about its lengths."""
    whole = tmp_path / "whole"
    rows = {"case_id": [f"c{n}" for n in range(200)], "outcomes": ["a", "b"] * 100}
    pl.DataFrame(rows).write_parquet(whole)
    body = whole.read_bytes()
    places = range(4, len(body) - 8, max(1, len(body) // 24))
    made = [body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :] for at in places]
    lengths = (0, 1, 2**31 - 1, 2**32 - 1)
    made += [body[:-8] + length.to_bytes(4, "little") + b"PAR1" for length in lengths]
    made += [b"PAR1", b"PAR1PAR1", body[:100] + b"PAR1", b"PAR1" + b"\xff" * 4000 + b"PAR1"]
    whole.unlink()
    paths = [tmp_path / f"{number}.parquet" for number in range(len(made))]
    for path, data in zip(paths, made, strict=True):
        path.write_bytes(data)
    return paths


@pytest.mark.full
def test_damaged_parquet_never_reaches_the_parent(tmp_path: Path, monkeypatch):
    paths = crashing(tmp_path)[::8]
    monkeypatch.setattr(pl, "read_parquet", None)  # nobody in this process reads it
    told = []
    for path in paths:
        for read in (
            lambda path=path: ground_truth(GroundTruthConfig(uri=str(path))),
            lambda path=path: read_labels(str(path), {}, LabelColumns(), "labels"),
        ):
            try:
                read()
            except ConfigurationError as error:
                told.append(str(error))
    assert len(told) >= len(paths)
    assert [one for one in told if "\n" in one] == []


def test_a_reader_that_dies_is_a_reject(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("assizes.tasks.sources.unpacking._TO_LINES", "import os; os.abort()")
    pl.DataFrame({"messages": ["x"]}).write_parquet(tmp_path / "x.parquet")
    (tmp_path / "fine.jsonl").write_bytes(FINE)
    assert planned(tmp_path) == {"parquet": 1}


def test_labels_and_ground_truth_that_are_bombs_are_one_line(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(spool, "MAX_BYTES", 1 << 20)
    files = {
        "l.csv.gz": gzip.compress(b"a,b\n" + b"1,2\n" * 2_000_000),
        "l.jsonl.gz": gzip.compress(b"0" * (2 << 20)),
        "l.json": DEEP.encode(),
        "l.jsonl": f'{{"case_id": {DEEP}}}'.encode(),
        "m.json": f'[{{"case_id": {DIGITS}}}'.encode(),
    }
    pl.DataFrame({"case_id": ["x" * 1000] * 3000}).write_parquet(tmp_path / "t.parquet")
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)
        with pytest.raises(ConfigurationError, match=name.partition(".")[0]):
            read_labels(str(tmp_path / name), {}, LabelColumns(), "labels")
    with pytest.raises(ConfigurationError, match="unpacks to more than"):
        ground_truth(GroundTruthConfig(uri=str(tmp_path / "t.parquet")))
    (tmp_path / "g.jsonl").write_bytes(files["l.jsonl"])
    with pytest.raises(ConfigurationError, match="g.jsonl"):
        ground_truth(GroundTruthConfig(uri=str(tmp_path / "g.jsonl")))


@pytest.mark.parametrize("text", [DEEP, "[" * 300_000, f"[{DIGITS}]", '["a", ' * 50_000])
def test_a_manifest_that_is_a_bomb_is_one_line(tmp_path: Path, text: str):
    (tmp_path / "list.json").write_text(text)
    config = TranscriptsConfig(uri=str(tmp_path / "list.json"), manifest=True)
    with Spool.of(config) as spool, pytest.raises(AssizesError, match=r"list\.json"):
        transcript_sources(config, None, spool)


TOML = {
    "twice": 'name = "a"\nname = "b"\n',
    "table twice": "[judge]\n[judge]\n",
    "deep": "a = " + "[" * 5000 + "]" * 5000,
    "dotted": ".".join("a" * 3000) + " = 1",
    "digits": f"a = {DIGITS}",
    "unknown": '[transcripts]\nuri = "in"\ncolour = "red"\n',
    "yes is no boolean": '[transcripts]\nuri = "in"\nsalvage = yes\n',
    "bytes": "\x00\x01",
    "too long": "# " + "x" * MAX_FILE_BYTES,
    "nan": '[transcripts]\nuri = "in"\n[limits]\ntimeout_s = nan\n',
    "type": '[transcripts]\nuri = ["in"]\n',
}


@pytest.mark.parametrize("kind", TOML)
def test_a_configuration_that_cannot_be_meant_is_one_line(tmp_path: Path, kind: str):
    (tmp_path / "assizes.toml").write_text(TOML[kind])
    with pytest.raises(ConfigurationError) as refused:
        read_config(tmp_path / "assizes.toml")
    assert "\n" not in str(refused.value)[:2000]


def test_a_rubric_and_a_setting_that_are_bombs_are_one_line(tmp_path: Path):
    for text in (TOML["deep"], TOML["digits"], TOML["twice"]):
        with pytest.raises(ConfigurationError, match="not TOML"):
            toml_table(text, "own.toml")
    (tmp_path / "assizes.toml").write_text('[transcripts]\nuri = "in"\n')
    with pytest.raises(ConfigurationError):
        read_config(tmp_path / "assizes.toml", [f"limits.max_in_flight={'[' * 5000}"])


def test_no_foreign_database_is_attached_and_no_foreign_parquet_read_in_this_process():
    attaching, reading = [], []
    for part in ("judge", "tasks", "flows", "deployments"):
        for path in (ROOT / part).rglob("*.py"):
            text = path.read_text("utf-8")
            name = str(path.relative_to(ROOT))
            attaching += [name] if re.search(r"(?<!')\battach (?!detach)", text, re.I) else []
            reading += [name] if re.search(r"\b(read|scan)_parquet\(", text) else []
    assert attaching == ["tasks/sandbox/duck.py"]  # a copy, in a child without files
    assert set(reading) == {
        "tasks/sources/unpacking.py",  # in a child
        *(name for name in reading if name.startswith("tasks/store/")),  # our own parts
    }


def test_reading_a_bomb_takes_little_memory(tmp_path: Path):
    program = """
import resource, sys
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.sources.spool import Spool
config = TranscriptsConfig(uri=sys.argv[1], max_object_mb=64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Spool.of(config) as spool:
    plan = plan_intake(config, 10, spool)
print(plan.rejected, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    for name in ("gzip.jsonl.gz", "sample.eval", "deep.eval"):
        ARCHIVES[name](tmp_path / name)
    (tmp_path / "fine.jsonl").write_bytes(FINE + LINES["never closed"][0].encode() + b"\n")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    rejected, grown_mb = map(int, done.stdout.split())
    assert (rejected, grown_mb <= 300) == (4, True), done.stdout
