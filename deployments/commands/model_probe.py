"""One call to a model, to see whether it answers and keeps to the shape that judges ask for."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from assizes.judge.config.judging import OFFLINE_MODEL, JudgeConfig, LimitsConfig
from assizes.judge.engine.attempts import read_completion
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.model_factory import check_model, model_for
from assizes.judge.models.model import Completion, Model, UnusableReply
from assizes.judge.protocol import Ask, Prompt

TIMEOUT_S = 60.0
"""Seconds that the call may take; a local model is loaded in that time."""

_WAYS_OUT = {
    "authentication": "check the key in the environment, such as OPENAI_API_KEY",
    "not_found": "check --model, the name, and --api-base",
    "unavailable": "check that its server runs, and --api-base",
    "timeout": "try again, as a local model may still be loading, or name another --model",
    "rate_limited": "try again in a minute, or name another --model",
    "quota": "check the provider's account, or name another --model",
}


class Arithmetic(BaseModel):
    """The reply that is asked for."""

    sum: int


QUESTION = Ask(
    Prompt("You check sums.", "Reply with the sum of 2 and 3."), Arithmetic, evidence=None
)


def probe_model(config: JudgeConfig) -> str:
    """Call a model once; returns what to say of its answer, in one line.

    Raises:
        ConfigurationError: the model cannot be called, or gives no answer; the message says why and
            what to do.
    """
    if config.model_id == OFFLINE_MODEL:
        return f"model {OFFLINE_MODEL}: text rules, no call is needed"
    check_model(config)
    model = model_for(config, LimitsConfig(timeout_s=TIMEOUT_S))
    try:
        completion = asyncio.run(_answer(model))
    except ModelError as error:
        way_out = _WAYS_OUT.get(error.code, "check the model's name, its key and --api-base")
        raise ConfigurationError(
            f"nothing was written: model {model.name!r} does not answer: {error.code}: "
            f"{error.detail}; {way_out}"
        ) from error
    seconds = f"{completion.latency_ms / 1000:.1f} s"
    if read_completion(QUESTION, completion).reply is None:
        return (
            f"model {model.name} answers in {seconds}, but not in the shape that judges ask for; "
            'try [judge] reply_format = "words", or a larger model'
        )
    return f"model {model.name} answers in {seconds}"


async def _answer(model: Model) -> Completion:
    try:
        try:
            return await model.complete(QUESTION)
        except UnusableReply:
            raise
        except ModelError as error:
            if error.code != "unsupported_parameter":
                raise
            return await model.complete(QUESTION)  # which leaves the parameter out
    finally:
        await model.aclose()
