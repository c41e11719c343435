"""CSV and TSV files become lines of JSON, and a row that is none costs no other."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.errors import DataError, Inconclusive
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.csv_files import csv_to_lines
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.unpacking import ObjectBounds


def lines(path: Path, content: str | bytes) -> list[Any]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    target = path.with_name("lines")
    csv_to_lines(path, target, ObjectBounds())
    return [json.loads(line) for line in target.read_bytes().splitlines()]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_rows_become_objects_whatever_separates_their_cells(tmp_path: Path, separator: str):
    rows = [["id", "what was said"], ["1", f'A{separator} "quoted"\nand more'], ["2", "B"]]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows(rows)
    content = (tmp_path / "t.csv").read_bytes()
    assert lines(tmp_path / "t.csv", content) == [
        {"id": "1", "what was said": f'A{separator} "quoted"\nand more'},
        {"id": "2", "what was said": "B"},
    ]


def test_empty_cells_blank_rows_and_columns_without_a_name_are_left_out(tmp_path: Path):
    assert lines(tmp_path / "t.csv", "\n,id,text\n0,1,\n\n , ,\n1,2,B\n") == [
        {"id": "1"},
        {"id": "2", "text": "B"},
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_as_excel_writes_them_are_read(tmp_path: Path, encoding: str):
    assert lines(tmp_path / "t.csv", "id;text\r\n1;späť\r\n".encode(encoding)) == [
        {"id": "1", "text": "späť"}
    ]


def test_a_cell_may_hold_a_long_conversation(tmp_path: Path):
    limit = csv.field_size_limit()
    (row,) = lines(tmp_path / "t.csv", f"id,text\n1,{'x' * 300_000}\n")
    assert len(row["text"]) == 300_000
    assert csv.field_size_limit() == limit  # of the process, and other programs in it


def test_rows_that_are_none_say_why_and_cost_no_other(tmp_path: Path):
    content = 'id,text\n1,A\n2,B, and more\n3,"C" D\n4,E\n5\n'
    first, long, quoted, last, short = lines(tmp_path / "t.csv", content)
    assert (first, last, short) == ({"id": "1", "text": "A"}, {"id": "4", "text": "E"}, {"id": "5"})
    assert long == "line 3: 3 cells under 2 column names; quote cells that hold ','"
    assert quoted.startswith("line 4: ',' expected after '\"'; quote the cells")


def test_bytes_that_are_no_text_are_a_fault_of_their_row_only(tmp_path: Path):
    (tmp_path / "t.csv").write_bytes("id,text\n1,späť\n".encode("latin2") + b"2,B\n")
    csv_to_lines(tmp_path / "t.csv", tmp_path / "lines", ObjectBounds())
    odd, good = (tmp_path / "lines").read_bytes().splitlines()
    with pytest.raises(DataError) as refused:
        strict_json(odd)
    assert refused.value.code == "encoding"
    assert strict_json(good) == {"id": "2", "text": "B"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("id,text,id\n1,A,2\n", "two columns are called 'id'; rename one of them"),
        ('"id,text\n1,A\n', "line 2: unexpected end of data; quote the cells"),
    ],
)
def test_a_table_without_usable_names_is_one_fault(tmp_path: Path, content: str, fault: str):
    with pytest.raises(DataError) as refused:
        lines(tmp_path / "t.csv", content)
    assert refused.value.code == "csv"
    assert refused.value.detail.startswith(fault)


def test_a_table_may_not_grow_over_the_bound_of_an_object(tmp_path: Path):
    (tmp_path / "t.csv").write_text("a_long_column_name\n" + "x\n" * 100)
    with pytest.raises(DataError, match="max_object_mb"):
        csv_to_lines(tmp_path / "t.csv", tmp_path / "lines", ObjectBounds(object_bytes=500))


def test_a_packed_table_is_read_through_the_spool(tmp_path: Path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,text\n1,A\n"))
    (source,) = list_sources(str(tmp_path), {})
    with Spool() as spool:
        assert json.loads(spool.lines_path(source).read_bytes()) == {"id": "1", "text": "A"}


def test_tables_beside_other_transcripts_are_no_transcripts(tmp_path: Path):
    (tmp_path / "labels.csv").write_text("case_id,label\na,1\n")
    assert [Path(s.uri).name for s in list_sources(str(tmp_path), {})] == ["labels.csv"]
    (tmp_path / "t.jsonl").write_text("{}\n")
    assert [Path(s.uri).name for s in list_sources(str(tmp_path), {})] == ["t.jsonl"]
    named = list_sources(f"{tmp_path}/*.csv", {})
    assert [Path(source.uri).name for source in named] == ["labels.csv"]


def test_an_empty_folder_names_tables_among_what_was_looked_for(tmp_path: Path):
    with pytest.raises(Inconclusive, match=r"\*\.csv, \*\.tsv"):
        list_sources(str(tmp_path), {})
