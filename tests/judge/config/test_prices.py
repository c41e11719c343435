"""The cost of calls, and the estimated number of tokens of texts."""

from __future__ import annotations

import base64
import gzip
import json
import random
import uuid

import pytest

from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import (
    JudgeConfig,
    LimitsConfig,
    Price,
    TokenScale,
    estimated_tokens,
    listed_price,
    most_tokens,
)
from assizes.judge.formats import FORMATS
from assizes.judge.hearing import Hearing
from assizes.judge.models.litellm_model import LiteLLM, litellm, price_of
from assizes.judge.models.provider_calls import completion_of
from assizes.judge.protocol import Ask

MINI = "openai/gpt-4o-mini"
NASTY_ROWS = range(200)


def test_the_list_that_came_with_litellm_gives_the_price():
    price = price_of(JudgeConfig(model=MINI), LimitsConfig())

    assert price is not None
    assert price.source.startswith("litellm 1.")
    assert (price.input_usd_per_million, price.output_usd_per_million) == (0.15, 0.6)
    assert (price.cached_input_usd_per_million, price.batch_factor) == (0.075, 0.5)


def test_a_configured_price_goes_before_the_list():
    mine = Price(input_usd_per_million=1, output_usd_per_million=2)

    assert price_of(JudgeConfig(model=MINI), LimitsConfig(prices={MINI: mine})) == mine


@pytest.mark.parametrize("model", ["openai/stub", "openai/claude-opus-99", "hosted_vllm/mine"])
def test_a_price_that_is_nowhere_is_not_zero(model):
    assert price_of(JudgeConfig(model=model), LimitsConfig()) is None


def test_a_batch_price_of_the_list_counts():
    listed = {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "input_cost_per_token_batches": 0.8e-6,
        "output_cost_per_token_batches": 1e-6,
    }

    price = listed_price(listed, "a list")

    assert price is not None
    assert price.batch_factor == 0.8  # the dearer of the two
    assert price.cost_usd(1_000_000, 0, batch=True) == pytest.approx(0.8)


def test_what_the_provider_had_in_its_cache_costs_less():
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 900},
    }
    response = litellm.ModelResponse(model="m", choices=[], usage=usage)
    price = Price(
        input_usd_per_million=10, output_usd_per_million=20, cached_input_usd_per_million=1
    )

    completion = completion_of(response, "m", price)

    assert completion.cost_usd == pytest.approx((100 * 10 + 900 * 1 + 100 * 20) / 1e6)


@pytest.mark.data
@pytest.mark.parametrize(
    ("form", "file"),
    [
        ("tau_bench", "tau_bench_airline/gpt-4o-airline.json.gz"),
        ("tau2", "tau2_airline/gpt-4.1.json.gz"),
    ],
)
def test_real_prompts_are_estimated_within_15_percent_of_the_tokenizer(data, form, file):
    records = FORMATS[form].records(gzip.decompress((data / file).read_bytes()))
    model = LiteLLM(JudgeConfig(model=MINI), LimitsConfig())
    bench = resolve_judges(JudgeConfig(model=MINI, judges=("conversation",)))

    for record in random.Random(7).sample(records, 8):
        hearing = Hearing(bench.judges[0], FORMATS[form].case(record))
        (ask,) = (question for question in hearing.asks if isinstance(question, Ask))
        request = model.request(ask)
        texts = [message["content"] for message in request["messages"]]
        counted = litellm.token_counter(
            model="gpt-4o", text="\n".join([*texts, str(request["response_format"])])
        )
        assert model.tokens(ask)[0] == pytest.approx(counted, rel=0.15)


def test_other_scripts_take_more_tokens_a_character():
    assert estimated_tokens("请帮我取消明天的航班预订") >= 2 * estimated_tokens("cancel my book")
    assert estimated_tokens("\ud800") == 1


RNG = random.Random(3)
NASTY = {
    "digits": "".join(RNG.choices("0123456789", k=3000)),
    "digits between commas": ",".join(RNG.choices("0123456789", k=3000)),
    "table of numbers": "\n".join(
        "|".join(f"{RNG.random():.4f}" for _ in "12345678") for _ in NASTY_ROWS
    ),
    "UUIDs": "\n".join(str(uuid.UUID(int=RNG.getrandbits(128))) for _ in NASTY_ROWS),
    "base64": base64.b64encode(RNG.randbytes(3000)).decode(),
    "emoji": "".join(chr(RNG.randint(0x1F300, 0x1F6FF)) for _ in NASTY_ROWS),
    "rare Chinese": "".join(chr(RNG.randint(0x4E00, 0x9FFF)) for _ in NASTY_ROWS),
    "no letters at all": "".join(chr(RNG.randint(0x10000, 0x10FFFF)) for _ in NASTY_ROWS),
    "HTML": '<td style="x:1">&nbsp;</td><br/>\n' * 60,
    "JSON": json.dumps([{"id": RNG.randint(0, 99999), "v": None} for _ in NASTY_ROWS]),
    "case by case": "xQjZ" * 500,
    "one word": "a",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4.1", "gpt-4"])
def test_no_prompt_has_more_tokens_than_its_worst_case(text, model):
    sent = [{"role": "user", "content": text}]

    counted = litellm.token_counter(model=model, messages=sent)

    assert counted <= most_tokens(estimated_tokens(text), [text])


def test_an_estimate_that_calls_put_right_raises_the_worst_case():
    assert most_tokens(1000, ["short"]) == 1500


def test_estimates_are_put_right_by_what_was_metered_and_never_by_much():
    scale = TokenScale()
    assert scale.adjusted_estimate(100) == 100

    scale.note(None, 1_000_000)
    scale.note(30_000, 15_000)
    assert scale.adjusted_estimate(100) == 175

    scale.note(10_000_000, 1_000)
    assert scale.adjusted_estimate(100) == 400
