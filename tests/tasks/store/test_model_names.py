"""Names of causes by a model are edits: they last, cost nothing again, and people can undo them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.config.judging import Price
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.models.model import ScriptedModel
from assizes.tasks.context.cause_names import NamedCauses, name_causes
from assizes.tasks.runs.edits.cause_edits import undo_cause_edit
from assizes.tasks.runs.run_causes import causes_of_run
from assizes.tasks.store import Store, open_store
from tests.tasks.store.failing_nights import RUDE_CASES, WRONG_CASES, night


class Namer(ScriptedModel):
    """Names each cause by its first reason, or fails."""

    def __init__(self, **changed: Any) -> None:
        super().__init__([])
        self.changed = changed

    async def complete(self, ask: Any, *, complaint: str | None = None, cap: int = 1) -> Any:
        word = "rude tone" if "rude" in ask.prompt.user else "wrong sum"
        reply = {"reasons": [1], "name": word, "sentence": "It is so."} | self.changed
        self._replies.append(json.dumps({"reply_id": ask.reply_id} | reply))
        return await super().complete(ask, complaint=complaint, cap=cap)


def named(place: Any, folder: Path, model: ScriptedModel, run_id: str = "latest") -> NamedCauses:
    config = RunConfig.model_validate(
        {
            "transcripts": {"uri": ""},
            "store": {"uri": place.uri},
            "cache": {"uri": str(folder / "cache")},
            "limits": {"ledger": str(folder / "ledger.db"), "max_attempts": 1},
        }
    )
    with open_store(place) as store:
        return asyncio.run(name_causes(config, store, run_id, model))


def names(store: Store, run_id: str) -> set[str]:
    return set(causes_of_run(store, run_id).causes["name"])


@pytest.fixture
def nights(place):
    with open_store(place, writing=True) as store:
        night(store, 1, RUDE_CASES)
        night(store, 2, RUDE_CASES | WRONG_CASES)
    return place


@pytest.mark.full
def test_names_last_over_nights_and_are_not_asked_for_again(nights, tmp_path: Path):
    model = Namer()
    first = named(nights, tmp_path, model)
    kinds = [edit["kind"] for edit in first.edits]
    assert (first.asked, kinds, first.failed) == (2, ["rename", "describe"] * 2, [])
    assert sorted(edit["quotes"][0] for edit in first.edits[::2]) == sorted(
        {*RUDE_CASES.values(), *WRONG_CASES.values()}
    )
    with open_store(nights, writing=True) as store:
        night(store, 3, RUDE_CASES | WRONG_CASES)
        assert names(store, "night-3") == names(store, "night-2") == {"rude tone", "wrong sum"}
    again = named(nights, tmp_path, model)
    assert (again.asked, again.edits, len(model.asked)) == (0, [], 2)
    with open_store(nights, writing=True) as store:
        undo_cause_edit(store, first.edits[0]["edit_id"], "Ada")
        assert len(names(store, "night-3") & {"rude tone", "wrong sum"}) == 1
    assert named(nights, tmp_path, model).asked == 0  # who undid it does not want it again


@pytest.mark.full
@pytest.mark.parametrize("changed", [{"reasons": []}, {"name": 7}])
def test_a_name_without_reasons_or_a_failure_keeps_the_name_of_the_program(
    nights, tmp_path: Path, changed: dict[str, Any]
):
    with open_store(nights) as store:
        before = names(store, "latest")
    result = named(nights, tmp_path, Namer(**changed))
    assert (result.asked, result.edits) == (2, [])
    with open_store(nights) as store:
        assert names(store, "latest") == before


def test_a_model_without_a_price_is_refused(nights, tmp_path: Path):
    model = Namer()
    model.price = None
    with pytest.raises(ConfigurationError, match="no price is known"):
        named(nights, tmp_path, model)
    assert isinstance(Namer().price, Price)
