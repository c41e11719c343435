"""How many tokens a prompt takes, counted by the tokenizer of the model it would be sent to."""

from __future__ import annotations

import json
import sys
from typing import Any

from assizes.judge.catalog import available_metrics, resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.formats import FORMATS
from assizes.judge.hearing import Hearing


def english_record() -> dict[str, Any]:
    """A native record in English prose of 6.1 KB, whose tokens the goal speaks of."""
    said = (
        "I would like to change the return flight of my booking to the next morning, keep the seat "
        "that I paid for, and know what the difference in fare comes to before anything is charged."
    )
    turns: list[dict[str, str]] = []
    length = 0
    while length < 6_100:
        role = ("user", "assistant")[len(turns) % 2]
        text = f"(0.{len(turns)}) {said}"
        turns.append({"role": role, "text": text})
        length += len(text) + len(role) + 7
    return {"case_id": "case-0", "transcript": {"turns": turns}}


def prompt_tokens(record: dict[str, Any]) -> int:
    """Prompt tokens of the one call that scores all nine metrics of a native record."""
    from assizes.judge.models.litellm_model import LiteLLM

    chosen = [{"metric": metric.name, "weight": 0.1} for metric in available_metrics()]
    config = JudgeConfig.model_validate({"model": "openai/gpt-4o-mini", "metrics": chosen})
    (judge,) = resolve_judges(config).judges
    ask = Hearing(judge, FORMATS["native"].case(json.dumps(record).encode())).asks[0]
    request = LiteLLM(config, LimitsConfig()).request(ask)
    litellm = sys.modules["litellm"]
    return int(litellm.token_counter(model="gpt-4o-mini", messages=request["messages"]))
