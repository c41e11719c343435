"""The redaction hook: a case is read through it or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.tasks.intake.shards import plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.builders import agent, case, user

HOOKS = """
import re

def hide(case):
    turns = tuple(
        turn.model_copy(update={"text": re.sub(r"\\d{4,}", "[number]", turn.text or "")})
        for turn in case.transcript.turns
    )
    return case.model_copy(update={"transcript": case.transcript.model_copy(update={"turns": turns})})

def rename(case):
    return case.model_copy(update={"case_id": "x"})

def forget(case):
    return None

text = "not a function"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("hooks", None)
    one = case(user("my card is 4111111111111111"), agent("Thank you."))
    path = tmp_path / "t.jsonl"
    path.write_bytes(native_line(one))
    return path


def read(file: Path, redact: str) -> str:
    config = TranscriptsConfig(uri=str(file), redact=redact)
    with Spool() as spool:
        plan = plan_intake(config, 10, spool)
        (record,) = [r for shard in plan.shards for r in read_shard(shard, config, spool)]
    assert record.case is not None
    return record.case.model_dump_json()


@pytest.mark.row("004-96")
def test_what_the_hook_takes_out_never_gets_past_reading(file: Path):
    text = read(file, "hooks:hide")
    assert "4111" not in text
    assert "my card is [number]" in text


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("hooks:rename", "identity"),
        ("hooks:forget", "returned a NoneType"),
        ("hooks:text", "wanted a function"),
        ("hooks:nothing", "names nothing"),
        ("no_such_module:hide", "cannot be imported"),
        ("hide", "module:function"),
    ],
)
def test_a_hook_that_does_not_fit_stops_the_run(file: Path, hook: str, said: str):
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(file, hook)
    assert "[transcripts] redact" in str(caught.value)
