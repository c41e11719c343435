"""Assizes: LLM-as-a-judge evaluation of agent conversations.

    import assizes

    result = assizes.evaluate(conversations, model="openai/gpt-4.1", metrics=["tool_routing"])
    result.to_polars()

The names below are the public API; `assizes.judge.protocol` has what the author of a judge needs
beside them. The four packages depend on one another in one direction only:
`assizes.deployments -> assizes.flows -> assizes.tasks -> assizes.judge`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assizes.deployments.library.evaluate import aevaluate, evaluate, load_run
    from assizes.deployments.library.results import Evaluation
    from assizes.judge import judges
    from assizes.judge.case import Case
    from assizes.judge.config.run import RunConfig
    from assizes.judge.protocol import Ask, Judge
    from assizes.judge.score import Score
    from assizes.judge.summary.wide_table import results_frame
    from assizes.tasks.store import open_store

    __version__: str

__all__ = [
    "Ask",
    "Case",
    "Evaluation",
    "Judge",
    "RunConfig",
    "Score",
    "aevaluate",
    "evaluate",
    "judges",
    "load_run",
    "open_store",
    "results_frame",
]

_HOMES: Final = {
    "Ask": "assizes.judge.protocol",
    "Case": "assizes.judge.case",
    "Evaluation": "assizes.deployments.library.results",
    "Judge": "assizes.judge.protocol",
    "RunConfig": "assizes.judge.config.run",
    "Score": "assizes.judge.score",
    "aevaluate": "assizes.deployments.library.evaluate",
    "evaluate": "assizes.deployments.library.evaluate",
    "load_run": "assizes.deployments.library.evaluate",
    "open_store": "assizes.tasks.store",
    "results_frame": "assizes.judge.summary.wide_table",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import assizes` itself takes no time.

    Raises:
        AttributeError: when the package has no such name.
    """
    if name == "judges":
        return import_module("assizes.judge.judges")
    if name == "__version__":
        return import_module("importlib.metadata").version("assizes")
    if name not in _HOMES:
        raise AttributeError(f"module 'assizes' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
