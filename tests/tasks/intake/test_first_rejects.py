from __future__ import annotations

from pathlib import Path

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.tasks.intake.first_rejects import FirstRejects
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR
from assizes.tasks.intake.sample import check_first_records

GOOD = '{"messages": [{"role": "user", "content": "hi"}]}\n'


def test_each_reason_is_shown_once_and_at_most_three_of_them():
    rejects = FirstRejects()
    for position, code in enumerate("aabacde"):
        rejects.add("x.jsonl", position, DataError(code, "why"))
    assert rejects.lines == (
        "x.jsonl, record 1: a: why",
        "x.jsonl, record 3: b: why",
        "x.jsonl, record 5: c: why",
    )


def test_an_object_as_a_whole_is_named_without_a_record():
    rejects = FirstRejects()
    rejects.add("x.gz", None, DataError("gzip_corrupt", "cut off"))
    assert str(rejects) == "x.gz: gzip_corrupt: cut off"


def test_only_the_first_records_are_read(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text(f"{GOOD}no json\n")
    (tmp_path / "b.jsonl").write_text(f'{GOOD}{{"messages": 5}}\n')
    config = TranscriptsConfig(uri=str(tmp_path), format="openai_chat")
    first = check_first_records(config, DEFAULT_PREPROCESSOR, 3)
    assert (first.read, first.rejected) == (3, 1)
    assert str(first.rejects).startswith(f"{tmp_path}/a.jsonl, record 2: json: not JSON")
    assert check_first_records(config, DEFAULT_PREPROCESSOR, 9).rejected == 2


def test_a_secret_in_a_reason_is_not_shown(tmp_path: Path):
    key = "sk-proj-" + "Ab1" * 16
    (tmp_path / "a.jsonl").write_text(f'{{"messages": [{{"role": "{key}", "content": "hi"}}]}}\n')
    config = TranscriptsConfig(uri=str(tmp_path), format="openai_chat")
    first = check_first_records(config, DEFAULT_PREPROCESSOR, 9)
    assert first.rejected == 1
    assert key[:40] not in str(first.rejects)
