"""The fingerprint of the judge of a metric: a judge with another one needs another calibration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from assizes.judge.config.calibration import VERDICT
from assizes.judge.prompts.reply import PARSER_VERSION
from assizes.judge.rows import as_json

_ASKED: Final = (
    "model",
    "provider",
    "api_base",
    "panel",
    "repeats",
    "escalate_to",
    "temperature",
    "max_output_tokens",
)
"""Settings of [judge] that every judge depends on when it asks."""


_REPEATING: Final = ("judge:recorded", "metric:recorded_reward")
"""Fingerprints that do not count, because this judge only repeats labels: a run with labels has the
same judge as a run without them."""


def judge_fingerprint(
    config: Mapping[str, Any], judge: str, metric: str, answered_by: Iterable[str]
) -> str:
    """The first 16 hex digits of a SHA-256 over everything that the scores of a metric depend on.

    These are the models as requested and as answered, how the models are asked, the version of the
    judge, the rubric and the parser. The verdict on a case depends on the whole of [judge].

    Args:
        config: the configuration of a run as stored in its record, with `fingerprints`.
        judge: the name of the judge of the metric; empty for the verdict.
        metric: the metric, or `verdict`.
        answered_by: the models that answered this judge.
    """
    settings, prints = config.get("judge", {}), config.get("fingerprints", {})
    if metric == VERDICT:
        prints = {name: digest for name, digest in prints.items() if name not in _REPEATING}
        relevant_settings: Any = {
            **settings,
            "judges": [j for j in settings["judges"] if j != "recorded"],
        }
    else:
        names = (f"judge:{judge}", f"metric:{metric}")
        prints = {name: prints[name] for name in names if name in prints}
        relevant_settings = {name: settings.get(name) for name in _ASKED}
        relevant_settings["options"] = (settings.get("options") or {}).get(judge)
        if judge == "conversation":  # all its metrics stand in one prompt
            relevant_settings["metrics"] = sorted(
                selection["metric"] for selection in settings.get("metrics") or []
            )
    body = as_json([relevant_settings, prints, sorted(answered_by), PARSER_VERSION])
    return hashlib.sha256(body.encode()).hexdigest()[:16]
