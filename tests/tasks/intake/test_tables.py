"""Tables of conversations through planning and shards: every row is accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.importing import import_transcripts
from assizes.tasks.intake.plan import NothingDue
from tests.tasks.intake.intake_files import counts, ids, planned, records, rejects

TURNS: dict[str, Any] = {"id": "ticket", "turn": "n", "role": "speaker", "text": "words"}
ROWS = """ticket,n,speaker,words
77,2,bot,It is late.
77,1,customer,Where is it?
78,1,customer,Hello
79,1,kunde,Hallo
78,2,bot,Hi
"""


def config(path: Path, **columns: Any) -> TranscriptsConfig:
    return TranscriptsConfig.model_validate({"uri": str(path), "columns": columns})


@pytest.mark.parametrize("shard_size", [1, 2, 100])
def test_a_row_a_turn_is_counted_by_conversations_in_shards_of_any_size(
    tmp_path: Path, shard_size: int
):
    (tmp_path / "t.csv").write_text(ROWS)
    wanted = config(tmp_path / "t.csv", **TURNS)
    plan = planned(wanted, shard_size)
    assert counts(plan) == (3, 2, 0, 1, 0)
    read = records(plan, wanted)
    assert (ids(read), rejects(read)) == (["77", "78"], [(2, "schema")])
    assert read[0].case is not None
    assert [turn.text for turn in read[0].case.transcript.turns] == ["Where is it?", "It is late."]


def test_csv_parquet_lines_and_a_document_of_the_same_rows_give_the_same_cases(tmp_path: Path):
    frame = pl.DataFrame({"nr": [1, 2], "q": ["A", "C"], "a": ["B", None], "lang": ["en", "de"]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    (tmp_path / "t.json").write_text(json.dumps(frame.to_dicts(), indent=1))
    seen = []
    for suffix in ("csv", "parquet", "jsonl", "json"):
        columns = {"id": "nr", "request": "q", "response": "a", "tags": ["lang"]}
        wanted = config(tmp_path / f"t.{suffix}", **columns)
        read = records(planned(wanted, 1), wanted)
        seen.append([record.case.content_hash() for record in read if record.case is not None])
    assert len(seen[0]) == 2
    assert seen == [seen[0]] * 4


def test_a_broken_row_and_a_row_that_is_none_are_rejects_with_their_places(tmp_path: Path):
    (tmp_path / "t.csv").write_text("id,q,a\n1,A,B\n2,A,B,C\n3,,\n4,A,B\n")
    wanted = config(tmp_path / "t.csv", id="id", request="q", response="a")
    read = records(planned(wanted), wanted)
    assert (ids(read), rejects(read)) == (["1", "4"], [(1, "csv"), (2, "schema")])
    assert "line 3: 4 cells under 3 column names" in read[1].excerpt


def test_a_table_of_an_unknown_shape_names_its_columns_and_what_helps(tmp_path: Path):
    (tmp_path / "t.csv").write_text(ROWS)
    wanted = TranscriptsConfig(uri=str(tmp_path / "t.csv"))
    with pytest.raises(NothingDue) as refused:
        planned(wanted)
    (shard,) = refused.value.plan.shards
    assert shard.failure is not None
    assert "a table with the columns ticket, n, speaker, words" in shard.failure.detail
    assert "assizes init" in shard.failure.detail


def test_a_table_that_cannot_be_read_at_all_says_what_is_wrong_in_it(tmp_path: Path):
    (tmp_path / "t.csv").write_text('id,text\n1,"open\n2,b\n')
    with pytest.raises(NothingDue) as refused:
        planned(TranscriptsConfig(uri=str(tmp_path / "t.csv")))
    (shard,) = refused.value.plan.shards
    assert shard.failure is not None
    assert (shard.failure.code, shard.failure.detail[:28]) == (
        "csv",
        "line 3: unexpected end of da",
    )


def test_rows_of_an_evaluation_set_in_a_csv_file_need_no_columns(tmp_path: Path):
    passages = json.dumps([{"content": "Late.", "doc_uri": "a.md"}]).replace('"', '""')
    (tmp_path / "t.csv").write_text(
        f'request_id,request,response,retrieved_context,expected_facts\nq1,A,B,"{passages}","[""C""]"\n'
    )
    wanted = TranscriptsConfig(uri=str(tmp_path / "t.csv"))
    plan = planned(wanted)
    (record,) = records(plan, wanted)
    assert plan.shards[0].format == "agent_evaluation"
    assert record.case is not None
    assert record.case.expected.facts == ("C",)
    assert [chunk.doc_uri for chunk in record.case.transcript.retrieved_chunks()] == ["a.md"]


def test_rows_of_one_conversation_are_joined_over_files_when_they_are_converted(tmp_path: Path):
    (tmp_path / "in").mkdir()
    head, *rows = ROWS.splitlines()
    (tmp_path / "in/a.csv").write_text("\n".join([head, rows[0]]))
    (tmp_path / "in/b.csv").write_text("\n".join([head, rows[1]]))
    out = tmp_path / "out.jsonl"
    result = import_transcripts(
        config(tmp_path / "in", **TURNS), out, "native", tmp_path / "labels.jsonl"
    )
    assert (result.cases, dict(result.formats)) == (1, {"table": 1})
    turns = json.loads(out.read_bytes())["transcript"]["turns"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"]


def test_a_plan_made_with_columns_is_read_by_the_same_columns_only(tmp_path: Path):
    (tmp_path / "t.csv").write_text(ROWS)
    wanted = config(tmp_path / "t.csv", **TURNS)
    other = config(tmp_path / "t.csv", **{**TURNS, "roles": {"kunde": "user"}})
    assert planned(wanted).content_hash != planned(other).content_hash
    assert ids(records(planned(other), other)) == ["77", "78", "79"]
