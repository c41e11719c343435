"""`assizes causes name` over real HTTP: names, sentences and a merge last, and cost nothing again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY
from tests.tasks.store.failing_nights import RUDE_CASES, night

LATE = "The refund was offered after the deadline."
CARD = (
    "Money of a gift card went to another bank account, a currency was confused and a refund "
    "therefore came short."
)
REASONS = RUDE_CASES | dict.fromkeys(range(10, 22), LATE) | dict.fromkeys(range(30, 36), CARD)
"""The last two share the word refund: they are causes so alike that a model is asked about them."""

PRICE = '[limits.prices."openai/{}"]\ninput_usd_per_million = 1.0\noutput_usd_per_million = 2.0\n'
SPENT = re.compile(r"spent: (\d+\.\d{4}) USD")


def command(folder: Path, *words: str) -> Answer:
    return assizes("causes", *words, cwd=folder, env={"OPENAI_API_KEY": OPENAI_KEY})


def naming(folder: Path, model: str = "namer", budget: str = "1", uri: str = "") -> Answer:
    more = ("--store", uri) if uri else ()
    words = ("--model", f"openai/{model}", "--budget-usd", budget)
    return command(folder, "name", "latest", *words, *more)


def shown(folder: Path) -> list[dict[str, Any]]:
    """The causes of the latest run that its cases show."""
    answer = command(folder, "show", "latest", "--json")
    assert answer.code == 0, answer
    return [row for row in json.loads(answer.out)["causes"] if row["cases"]]


@pytest.fixture(params=["duckdb:///rows.duckdb", "lake"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, judge_server: Any) -> Path:
    settings = f'[store]\nuri = "{request.param}"\n[cache]\nuri = "replies"\n'
    settings += f'[judge]\napi_base = "{judge_server.api_base}"\n[limits]\nledger = "ledger.db"\n'
    settings += PRICE.format("namer") + PRICE.format("invalid")
    (tmp_path / "assizes.toml").write_text(settings, encoding="utf-8")
    add_night(tmp_path, 1)
    return tmp_path


def add_night(folder: Path, number: int) -> None:
    is_lake = 'uri = "lake"' in (folder / "assizes.toml").read_text()
    uri = str(folder / "lake") if is_lake else f"duckdb:///{folder}/rows.duckdb"
    with open_store(StoreConfig(uri=uri), writing=True) as store:
        night(store, number, REASONS)


def test_names_sentences_and_a_merge_last_and_cost_nothing_again(folder: Path, judge_server: Any):
    before = {row["cause_id"] for row in shown(folder)}
    assert len(before) == 3
    own = [*folder.glob("rows.duckdb*"), *folder.glob("lake")]
    (folder / "copy").mkdir()
    for path in own:
        copy = shutil.copytree if path.is_dir() else shutil.copy
        copy(path, folder / "copy" / path.name)
    first = naming(folder)
    assert first.code == 0, first
    assert "3 of 3 causes named, 1 merged; 0 asks without a reply" in first.out
    spent = SPENT.search(first.out)
    assert spent is not None
    assert float(spent[1]) > 0
    assert f"  because: {CARD}" in first.out
    assert judge_server.stats()["requests"] == 4  # one for each name, one about the pair
    add_night(folder, 2)
    rows = {row["name"]: row for row in shown(folder)}
    assert set(rows) == {"rude and impatient", "after the deadline"}
    assert rows["after the deadline"]["cases"] == 18  # with those of the merged cause
    late = rows["after the deadline"]
    assert late["sentence"] == "What goes wrong is after the deadline."
    assert late["described_by"] == "model openai/namer"
    assert "deadline. (written by model openai/namer; cases" in command(folder, "latest").out
    history = json.loads(command(folder, "history", "latest", "--json").out)["edits"]
    assert {edit["author"] for edit in history} == {"model openai/namer"}
    assert sorted(edit["kind"] for edit in history) == [*["describe"] * 2, "merge", *["rename"] * 2]
    again = naming(folder)
    assert "0 of 0 causes named, 0 merged; 0 asks without a reply; spent: 0.0000 USD" in again.out
    uri = "copy/lake" if (folder / "lake").exists() else "duckdb:///copy/rows.duckdb"
    cached = naming(folder, uri=uri)  # the same reasons, and no edits: the replies are in the cache
    assert "3 of 3 causes named, 1 merged" in cached.out
    assert "spent: 0.0000 USD" in cached.out
    assert judge_server.stats()["requests"] == 4


@pytest.mark.full
def test_a_person_describes_a_cause_before_the_model_and_undoes_what_it_wrote(folder: Path):
    rude, late = (
        next(row["cause_id"] for row in shown(folder) if row["examples"][0] in cases)
        for cases in ({"c0"}, {"c10"})
    )
    written = command(folder, "describe", "latest", rude, "The agent is rude.", "--by", "Ada")
    assert written.code == 0, written
    assert naming(folder).code == 0
    rows = {row["cause_id"]: row for row in shown(folder)}
    assert (rows[rude]["sentence"], rows[rude]["described_by"]) == ("The agent is rude.", "Ada")
    assert rows[rude]["name"] == "rude and impatient"
    history = json.loads(command(folder, "history", "latest", late, "--json").out)["edits"]
    (sentence,) = [
        edit for edit in history if (edit["kind"], edit["cause_id"]) == ("describe", late)
    ]
    assert command(folder, "undo", sentence["edit_id"]).code == 0
    row = next(row for row in shown(folder) if row["cause_id"] == late)
    assert row["sentence"] in (LATE, CARD)  # the model made them one cause
    assert row["described_by"] is None
    long = command(folder, "describe", "latest", rude, "x" * 301)
    assert (long.code, "at most 300 characters" in long.err) == (2, True)


@pytest.mark.parametrize(
    ("budget", "line"),
    [("0", "--budget-usd 0 pays for no ask"), ("0.0000001", "the budget is spent; 0 edits")],
)
def test_a_budget_that_pays_for_no_ask_stops_before_a_call(
    folder: Path, judge_server: Any, budget: str, line: str
):
    before = shown(folder)
    answer = naming(folder, budget=budget)
    assert (answer.code, line in answer.err) == (5, True), answer
    assert "Traceback" not in answer.err
    assert judge_server.stats()["requests"] == 0
    assert shown(folder) == before


def test_garbage_keeps_the_names_of_the_program(folder: Path, judge_server: Any):
    before = shown(folder)
    answer = naming(folder, model="invalid")
    assert answer.code == 0, answer
    assert "0 of 3 causes named, 0 merged; 4 asks without a reply" in answer.out
    assert judge_server.stats()["requests"] >= 4
    assert shown(folder) == before
    assert naming(folder, budget="-1").code == 2
