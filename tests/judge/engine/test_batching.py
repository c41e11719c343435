"""The asks that a round of hearings would put next, found without a model."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from assizes.judge.config.judging import JudgeConfig, Price
from assizes.judge.engine.batching import AskCollector, PaidReply, batches_of
from assizes.judge.engine.ensemble_hearing import EnsembleModels
from assizes.judge.engine.hearings import EngineDependencies
from assizes.judge.engine.ledger import CachedReply
from assizes.judge.errors import ConfigurationError
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.model_factory import model_for
from assizes.judge.models.model import Completion, ReplayOnlyModel, ScriptedModel, UnusableReply
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.judge.engine.calls import LIMITS
from tests.judge.engine.levels import CASE, Asking, doubts_below_3, engine, priced


class Batched:
    """The asks of a run and the replies of its batches."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, str]] = []
        self.reply_id = ""
        self.came: dict[str, PaidReply] = {}
        self.left: dict[str, PaidReply] = {}

    def has_asked(self, key: str) -> bool:
        return key in {one[2] for one in self.noted}

    async def take(self, key: str) -> PaidReply | None:
        return self.came.pop(key, None)

    def leave(self, key: str, came: PaidReply) -> None:
        self.left[key] = came

    def note(self, model, ask, key) -> None:
        self.noted.append((model.name, ask.prompt.user, key))
        self.reply_id = ask.reply_id

    @property
    def questions(self) -> list[str]:
        return [text for _, text, _ in self.noted]

    def answer(self, came: PaidReply) -> None:
        """The last ask that was noted; a reply in JSON holds its id."""
        if isinstance(came, Completion) and came.text.startswith("{"):
            stamped = {"reply_id": self.reply_id, **json.loads(came.text)}
            came = replace(came, text=json.dumps(stamped))
        self.came[self.noted[-1][2]] = came


@pytest.fixture
def replies(tmp_path) -> FileReplyCache:
    return FileReplyCache(str(tmp_path))


def gatherer(batched: Batched, replies: FileReplyCache, model=None, **own) -> AskCollector:
    means = EngineDependencies(run_id="r1", cache=replies)
    return AskCollector(model or ScriptedModel([]), means, own, batched, batched.note)


async def test_the_asks_of_the_first_round_are_noted_each_once_and_no_model_is_called(replies):
    batched, model = Batched(), ScriptedModel([])
    gathering = gatherer(batched, replies, model)

    for _ in range(2):
        await gathering.hear(Asking(["a", "b", "a"], ["later"]), CASE)

    assert sorted(batched.questions) == ["a", "b"]
    assert model.asked == []


async def test_a_hearing_stops_at_the_first_round_that_lacks_a_reply(replies):
    judge = Asking(["a"], ["b", "c"], ["d"])
    kept = engine(ScriptedModel([priced(1)] * 2), replies)
    await kept.hear(Asking(["a"], ["b"]), CASE)
    batched = Batched()

    await gatherer(batched, replies).hear(judge, CASE)

    assert batched.questions == ["c"]


async def test_a_reply_that_fits_is_kept_for_the_run_and_the_next_round_is_noted(replies):
    batched, judge = Batched(), Asking(["a"], ["b"])
    await gatherer(batched, replies).hear(judge, CASE)
    batched.answer(priced(3))
    said = {"reply_id": batched.reply_id, "score": 3}
    await gatherer(batched, replies).hear(judge, CASE)

    assert batched.questions == ["a", "b"]
    kept = await replies.get(batched.noted[0][2])
    assert kept == CachedReply(kept.completion, attempts=1, paid_by="r1")
    assert (json.loads(kept.completion.text), kept.completion.cost_usd) == (said, 0.25)

    heard = await engine(ScriptedModel([priced(1)]), replies, {"run_id": "r1"}).hear(judge, CASE)
    assert [(one.cached, one.cost_usd) for one in heard.asks] == [(False, 0.25), (False, 0.25)]


@pytest.mark.parametrize(
    ("came", "doubts"),
    [
        (Completion("not json", "m", 1, 1, 0.1), None),
        (UnusableReply("refused", "no", Completion("", "m", 1, 1, 0.1)), None),
        (priced(2), doubts_below_3),
    ],
)
async def test_what_does_not_fit_is_left_and_never_noted_again(replies, came, doubts):
    batched, judge = Batched(), Asking(["a"], ["b"], doubts=doubts)
    await gatherer(batched, replies).hear(judge, CASE)
    batched.answer(came)
    for _ in range(2):
        await gatherer(batched, replies).hear(judge, CASE)

    (key,) = batched.left
    assert batched.questions == ["a"]
    assert await replies.get(key) is None


class Unwritable(FileReplyCache):
    """A cache that cannot be written, because the disk is full."""

    async def store(self, key, kept):
        pass


@pytest.mark.parametrize("caching", [False, True])
async def test_a_reply_that_no_cache_takes_is_left_for_the_ask_itself(tmp_path, caching):
    batched, judge = Batched(), Asking(["a"])
    means = EngineDependencies(run_id="r1", cache=Unwritable(str(tmp_path)) if caching else None)
    gathering = AskCollector(ScriptedModel([]), means, {}, batched, batched.note)
    await gathering.hear(judge, CASE)
    batched.answer(priced(3))
    await gathering.hear(judge, CASE)

    ((key, left),) = batched.left.items()
    assert (key, left.cost_usd) == (batched.noted[0][2], 0.25)


@pytest.mark.parametrize(
    ("came", "second", "attempts", "error"),
    [
        (Completion("not json", "m", 7, 1, 0.1), [priced(4)], 2, None),
        (UnusableReply("refused", "no", Completion("", "m", 7, 1, 0.1)), [], 1, "refused: no"),
    ],
)
async def test_what_is_left_is_the_first_attempt_of_the_ask(replies, came, second, attempts, error):
    batched, judge = Batched(), Asking(["a"])
    await gatherer(batched, replies).hear(judge, CASE)
    batched.answer(came)
    await gatherer(batched, replies).hear(judge, CASE)

    model = ScriptedModel(second)
    heard = await engine(model, replies, {"batch_replies": batched.left}).hear(judge, CASE)

    (ask,) = heard.asks
    assert (ask.attempts, ask.error) == (attempts, error)
    assert ask.cost_usd == pytest.approx(0.1 + 0.25 * len(second))
    assert all(complaint is not None for _, complaint in model.asked)


async def test_an_ask_that_a_batch_could_not_answer_is_not_noted_again(replies):
    batched = Batched()
    for _ in range(2):
        await gatherer(batched, replies).hear(Asking(["a"]), CASE)

    assert batched.questions == ["a"]
    assert batched.left == {}


async def test_tokens_that_were_not_metered_are_estimated_at_the_price_of_a_batch(replies):
    class Dear(ScriptedModel):
        price = Price(input_usd_per_million=5e5, output_usd_per_million=1e6)

    batched, model = Batched(), Dear([])
    await gatherer(batched, replies, model).hear(Asking(["a"]), CASE)
    batched.answer(Completion('{"score": 3}', "m", flags=("batch",)))
    await gatherer(batched, replies, model).hear(Asking(["a"]), CASE)

    kept = await replies.get(batched.noted[0][2])
    completion = kept.completion
    assert completion.flags == ("batch", "tokens_estimated")
    tokens = (completion.input_tokens, completion.output_tokens)
    assert min(tokens) > 0
    assert completion.cost_usd == pytest.approx(0.25 * (tokens[0] + 2 * tokens[1]))


async def test_all_votes_of_a_panel_are_noted_in_one_round(replies):
    one, other = ScriptedModel([]), ScriptedModel([], cache_key="other")
    batched = Batched()
    panel = EnsembleModels((one, other), repeats=2)

    await gatherer(batched, replies, asking=panel).hear(Asking(["a"]), CASE)

    assert batched.questions == ["a"] * 4
    assert len({key for _, _, key in batched.noted}) == 4


async def test_plain_rules_answer_by_themselves(replies):
    batched = Batched()
    await gatherer(batched, replies, HeuristicModel()).hear(Asking(["a"]), CASE)

    assert batched.questions == []
    assert batches_of(HeuristicModel()) is None
    assert batches_of(ReplayOnlyModel(ScriptedModel([]))) is None


def test_a_provider_that_cannot_find_a_batch_again_is_refused(monkeypatch):

    monkeypatch.setenv("MISTRAL_API_KEY", "x" * 20)
    model = model_for(JudgeConfig(model="mistral/mistral-large-latest"), LIMITS)

    with pytest.raises(ConfigurationError, match="'mistral/mistral-large-latest', only.*openai"):
        batches_of(model)
