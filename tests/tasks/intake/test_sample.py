"""A first look at transcripts: some cases, what cannot be read, columns and days."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.tasks.intake.sample import SAMPLE_CASES, DayTemplate, day_template, look_at
from assizes.tasks.sources.listing import TranscriptSource
from tests.tasks.intake.intake_files import config, line, written

TURNS = "ticket,n,speaker,words\n77,1,customer,Where is my order?\n77,2,bot,It is late.\n"


def sources(*uris: str) -> list[TranscriptSource]:
    return [TranscriptSource(uri, "", 0) for uri in uris]


def test_a_look_ends_when_it_has_seen_enough_and_begins_with_the_newest(tmp_path: Path):
    for day in ("2026-11-19", "2026-11-20", "2026-11-21"):
        written(tmp_path / day / "t.jsonl", *(line(f"{day}-{n}") for n in range(SAMPLE_CASES - 50)))
    sample = look_at(config(tmp_path), None)
    assert (len(sample.cases), sample.objects, sample.formats) == (SAMPLE_CASES, 3, ("native",))
    assert {case.case_id[:10] for case in sample.cases} == {"2026-11-20", "2026-11-21"}
    assert sample.days == DayTemplate(
        f"{tmp_path.as_posix()}/{{date:%Y-%m-%d}}/", dt.date(2026, 11, 21)
    )


def test_what_cannot_be_read_is_counted_and_the_first_three_are_named(tmp_path: Path):
    written(tmp_path / "t.jsonl", line("a"), b"{", b"{}", b"[]", b"x", line("b"))
    sample = look_at(config(tmp_path), None)
    assert (len(sample.cases), sample.records, sample.rejected) == (2, 6, 4)
    assert len(sample.reasons) == 3
    assert sample.reasons[0].startswith(f"{tmp_path.as_posix()}/t.jsonl, record 2: json: ")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_the_columns_of_a_table_are_guessed_whatever_file_it_lies_in(tmp_path: Path, name: str):
    rows = [
        b'{"ticket": 77, "n": 1, "speaker": "customer", "words": "Where is it?", "prio": 1}',
        b'{"ticket": 77, "n": 2, "speaker": "bot", "words": "It is late.", "prio": 1}',
    ]
    written(tmp_path / name, *([TURNS.encode()] if name == "t.csv" else rows))
    sample = look_at(config(tmp_path), None)
    assert sample.columns is not None
    assert sample.columns.model_dump(exclude_defaults=True) == {
        "id": "ticket",
        "turn": "n",
        "role": "speaker",
        "text": "words",
    }
    assert sample.unused == (() if name == "t.csv" else ("prio",))
    assert len(sample.cases) == 1


def test_broken_records_of_a_known_format_are_not_taken_for_a_table(tmp_path: Path):
    turns = '[{"role": "user", "text": "A"}, {"role": "assistant", "text": "B"}]'
    written(
        tmp_path / "t.jsonl",
        f'{{"case_id": "a", "transcript": {{"turns": {turns}}}, "oops": 1}}'.encode(),
    )
    sample = look_at(config(tmp_path), None)
    assert (sample.cases, sample.columns, sample.table) == ([], None, ())
    assert "oops: Extra inputs are not permitted" in sample.reasons[0]


def test_a_table_that_shows_no_conversation_is_given_back_with_its_columns(tmp_path: Path):
    (tmp_path / "t.csv").write_text("id,price\n1,2\n")
    sample = look_at(config(tmp_path / "t.csv"), None)
    assert (sample.cases, sample.columns, sample.table) == ([], None, ("id", "price"))


def test_columns_that_are_known_are_taken_and_checked(tmp_path: Path):
    (tmp_path / "t.csv").write_text(TURNS.replace("customer", "kunde").replace("speaker", "wer"))
    wanted = TranscriptsConfig(uri=str(tmp_path / "t.csv"))
    sample = look_at(wanted, None, {"role": "wer", "text": "words", "id": "ticket"})
    assert sample.cases == []  # one row of the conversation is by somebody nobody knows
    assert "role: 'kunde' is not known" in sample.reasons[0]
    known = {"role": "wer", "text": "words", "id": "ticket", "roles": {"kunde": "user"}}
    assert len(look_at(wanted, None, known).cases) == 1
    with pytest.raises(ConfigurationError, match="--column: unknown column 'who'; known: n, "):
        look_at(wanted, None, {"role": "who"})
    with pytest.raises(ConfigurationError, match="--column: .* one of the three"):
        look_at(wanted, None, {"request": "words", "conversation": "words"})


def test_a_place_with_a_date_is_looked_at_on_that_day(tmp_path: Path):
    written(tmp_path / "2026-11-20/t.jsonl", line("a"))
    place = config(f"{tmp_path}/{{date:%Y-%m-%d}}/")
    assert [case.case_id for case in look_at(place, dt.date(2026, 11, 20)).cases] == ["a"]
    with pytest.raises(ConfigurationError, match="does not exist"):
        look_at(place, dt.date(2026, 11, 21))


def test_an_empty_folder_has_nothing_to_look_at(tmp_path: Path):
    with pytest.raises(Inconclusive, match="no transcripts under"):
        look_at(config(tmp_path), None)


@pytest.mark.parametrize(
    ("uri", "names", "template"),
    [
        ("t", ["t/2026-11-20/a.jsonl", "t/2026-11-21/b.jsonl"], "t/{date:%Y-%m-%d}/"),
        ("./t/", ["t/2026/11/20/a.jsonl"], "t/{date:%Y/%m/%d}/"),
        ("s3://b/t", ["s3://b/t/dt=20261120/x/a.jsonl"], "s3://b/t/dt={date:%Y%m%d}/"),
        (
            "t",
            ["t/year=2026/month=11/day=20/a.jsonl"],
            "t/year={date:%Y}/month={date:%m}/day={date:%d}/",
        ),
        (
            "t",
            ["t/chat-2026-11-20.jsonl", "t/chat-2026-11-21.jsonl"],
            "t/chat-{date:%Y-%m-%d}.jsonl",
        ),
        ("t", ["t/2026-11-20-a.jsonl", "t/2026-11-21-b.jsonl"], "t/{date:%Y-%m-%d}*"),
        ("t", ["t/chat-2026-11-20.jsonl"], None),  # one file named after a day
        ("t", ["t/2026-11-20/a.jsonl", "t/other/b.jsonl"], None),
        ("t", ["t/2026-11-20/a.jsonl", "t/x/2026-11-21/b.jsonl"], None),
        ("t", ["t/2026-13-40/a.jsonl"], None),
        ("t", ["t/order-20261120345/a.jsonl"], None),
        ("t/2026-11-20/a.jsonl", ["t/2026-11-20/a.jsonl"], None),
        ("t/*/", ["t/2026-11-20/a.jsonl"], None),
    ],
)
def test_days_are_seen_where_every_name_holds_one_at_the_same_place(
    uri: str, names: list[str], template: str | None
):
    days = day_template(uri, sources(*names))
    assert (days and days.uri) == template
