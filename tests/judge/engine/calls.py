"""One ask, and the configurations that put it to the judge model over HTTP."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pydantic import BaseModel, ConfigDict

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.model_factory import model_for
from assizes.judge.models.model import Completion
from assizes.judge.protocol import Ask, Prompt
from tests.doubles.fixtures import OpenAIServer


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    justification: str
    score: int
    failure_code: str | None = None


ASK = Ask(Prompt("You judge.", "Was it good?"), Reply)
LIMITS = LimitsConfig(timeout_s=5)


def config(server: OpenAIServer, model: str = "stub", **rest: Any) -> JudgeConfig:
    return JudgeConfig(**{"model": f"openai/{model}", "api_base": server.api_base} | rest)


def completing(server: OpenAIServer, model: str, **rest: Any) -> Coroutine[Any, Any, Completion]:
    return model_for(config(server, model, **rest), LIMITS).complete(ASK)
