"""`assizes.evaluate`: judge conversations from a script or a notebook, without a server.

    import assizes

    result = assizes.evaluate(conversations, model="openai/gpt-4.1", metrics=["tool_routing"])
    result.to_polars()

The engine is that of `assizes run`: the same limits, reply cache, ledger and rows.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from assizes.deployments.library.inputs import (
    CASES,
    PLACE,
    CasesInput,
    memory_cases,
    reject_lines,
    table_columns,
    write_files,
)
from assizes.deployments.library.progress import show_progress
from assizes.deployments.library.results import Evaluation
from assizes.deployments.settings import read_optional_config, validate_config
from assizes.judge.catalog import CONVERSATION, JUDGES, available_metrics
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.config.transcripts import FormatName
from assizes.judge.engine.blocking import run_blocking
from assizes.judge.errors import (
    AssizesError,
    ConfigurationError,
    Halted,
    Inconclusive,
    OverBudget,
)
from assizes.judge.rows import as_json
from assizes.tasks.intake.plan import NothingDue
from assizes.tasks.intake.reader import is_table
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
from assizes.tasks.store import open_store

KEPT_INPUTS: Final = Path(".assizes/inputs")
"""The folder of conversations that came from memory and are judged into a store: it shows them."""

MetricsInput: TypeAlias = str | Sequence[str] | Mapping[str, float]
"""A name of a metric, or several, or their weights by name."""

JudgesInput: TypeAlias = str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
"""A name of a judge, or a function of your own, or several."""


class EvaluateSettings(TypedDict, total=False):
    """The settings that `evaluate` takes beside its parameters; each may be left out."""

    api_base: str  # address of a model that you host, as http://127.0.0.1:11434/v1
    format: FormatName  # of the conversations; by default it is recognised
    name: str  # of the run; runs of one name are compared with one another
    limit: int  # judge at most so many cases
    max_in_flight: int  # model calls at once, at most
    budget_usd: float  # dollars that the run may spend on model calls, at most
    progress: bool  # whether a progress bar is shown; by default in a terminal and a notebook
    # Settings as in assizes.toml: the path of such a file, tables, or a `RunConfig`.
    config: str | Path | Mapping[str, Any] | RunConfig


_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "api_base": ("judge", "api_base"),
    "format": ("transcripts", "format"),
    "limit": ("transcripts", "limit"),
    "max_in_flight": ("limits", "max_in_flight"),
    "budget_usd": ("limits", "budget_usd"),
}
"""Table and field of the configuration that a setting stands for."""

UNREAD_HINT: Final = (
    "; a conversation is a list of messages such as {'role': 'user', 'content': 'Hi'}, and rows of "
    "a table need columns, e.g. columns={'request': ..., 'response': ...}"
)
"""What helps where records of no known format are given."""

_STOPS: Final[Mapping[str, type[AssizesError]]] = {
    "Incomplete": Inconclusive,
    "OverBudget": OverBudget,
    "Halted": Halted,
}
"""What is raised where a run ended so before any case was judged, by its conclusion."""

_PARAMETERS: Final = ("model", "metrics", "judges", "columns", "store")


def evaluate(
    cases: CasesInput | RunConfig,
    *,
    model: str | None = None,
    metrics: MetricsInput | None = None,
    judges: JudgesInput | None = None,
    columns: Mapping[str, Any] | None = None,
    store: str | Path | None = None,
    **settings: Unpack[EvaluateSettings],
) -> Evaluation:
    """Judge conversations and return their scores; no server and no configuration is needed.

    It also works where an event loop runs, as in a notebook. Ctrl-C ends it; replies that were
    paid for stay in the reply cache, so that the same call goes on where this one stopped.

    Args:
        cases: a path or URI, a list of `Case`s, of dicts in any format or of lists of messages, or
            a Polars or pandas frame. A `RunConfig` is judged as it stands.
        model: the judge model, as litellm names it: `openai/gpt-4.1`, `ollama/llama3.1`. Without a
            model, text rules judge offline.
        metrics: conversation metrics, or their weights by name; by default the eight of
            `assizes metrics`.
        judges: judges by name (`assizes judges` lists them), or functions of your own. By default
            the judge of conversation metrics, where `metrics` are given or `judges` are not.
        columns: for a frame, a CSV or a Parquet file: settings of `[transcripts.columns]`, as `id`,
            `role`, `text` and `turn` (one row a message), `conversation`, or `request` and
            `response`. What is not named is guessed from names and cells.
        store: keep the rows there, e.g. `assizes.duckdb`; by default they live as long as the
            result.
        settings: `api_base`, `format`, `name`, `limit`, `max_in_flight`, `budget_usd`, `progress`
            and `config`; see `EvaluateSettings`.

    Raises:
        ConfigurationError: something cannot work, such as an unknown metric or a missing key.
        Inconclusive: there is nothing to judge, or the model could not be reached.
        OverBudget: the budget was spent before any case was judged.
    """
    choice = JudgeChoice(model, metrics, judges)
    with show_progress(wanted=settings.get("progress")):
        return run_blocking(_evaluate(cases, choice, columns, store, settings))


async def aevaluate(
    cases: CasesInput | RunConfig,
    *,
    model: str | None = None,
    metrics: MetricsInput | None = None,
    judges: JudgesInput | None = None,
    columns: Mapping[str, Any] | None = None,
    store: str | Path | None = None,
    **settings: Unpack[EvaluateSettings],
) -> Evaluation:
    """As `evaluate`, for code that awaits: other tasks of the event loop go on meanwhile."""
    choice = JudgeChoice(model, metrics, judges)
    with show_progress(wanted=settings.get("progress")):
        return await _evaluate(cases, choice, columns, store, settings)


def load_run(run_id: str, store: str | Path) -> Evaluation:
    """A run of a store, as `evaluate` returns it: for example last night's, to compare with.

    Raises:
        UnknownRun: the store has no such run.
        NoStore: there is no store.
    """
    config = StoreConfig(uri=_store_uri(store))
    with open_store(config) as opened:
        return Evaluation(config, opened.run(run_id).run_id)


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """Who judges, and what: the parameters of `evaluate` that decide it."""

    model: str | None
    metrics: MetricsInput | None
    judges: JudgesInput | None


async def _evaluate(
    cases: CasesInput | RunConfig,
    choice: JudgeChoice,
    columns: Mapping[str, Any] | None,
    store: str | Path | None,
    settings: EvaluateSettings,
) -> Evaluation:
    _check_settings(settings)
    body = await asyncio.to_thread(_settings_body, cases, choice, settings)
    if isinstance(cases, RunConfig):
        if store is not None:
            body["store"] = {"uri": _store_uri(store)}
        return await _judge(validate_config(body, "evaluate"), None, None)
    with ExitStack() as cleanup:
        scratch = folder = None
        if store is None:
            scratch = cleanup.enter_context(TemporaryFolder())
            folder = scratch.path
        uri = f"duckdb:///{folder}/run.duckdb" if store is None else _store_uri(store)
        body["store"] = {"uri": uri}
        digest = await asyncio.to_thread(_place_input, body, cases, columns, folder)
        config = validate_config(body, "evaluate")
        run_id = None if scratch is None or digest is None else _content_id(config, digest)
        try:
            result = await _judge(config, run_id, scratch)
        except NothingDue as error:
            if digest is None or error.plan is None:
                raise
            why = "; ".join(reject_lines(error.rejects)) or "the settings leave all of them out"
            hint = UNREAD_HINT if "not recognised" in why else ""
            raise Inconclusive(f"no_data: none of the cases can be judged: {why}{hint}") from None
        cleanup.pop_all()  # from here on the result removes the folder
    return result


async def _judge(
    config: RunConfig, run_id: str | None, scratch: TemporaryFolder | None
) -> Evaluation:
    from assizes.flows.in_process import evaluate_in_process  # imports Prefect: seconds

    resume = None if scratch is None else "the same call"  # no command finds its store
    outcome = await evaluate_in_process(config, run_id, resume)
    counts = outcome.summary.counts
    if outcome.conclusion in _STOPS and not counts["judged"] + counts["errored"]:
        raise _STOPS[outcome.conclusion]("; ".join(outcome.reasons))
    return Evaluation(config.store, outcome.run_id, outcome, scratch)


def _place_input(
    body: dict[str, Any],
    cases: CasesInput,
    columns: Mapping[str, Any] | None,
    scratch: Path | None,
) -> str | None:
    """Set the URI of the transcripts; returns the digest of cases that were in memory, else `None`.

    Cases in memory are written first: into the `scratch` folder, or without one to `KEPT_INPUTS`.
    """
    transcripts = body.setdefault("transcripts", {})
    if isinstance(cases, str | Path):
        transcripts["uri"] = str(cases)
        if columns or is_table(str(cases)):
            transcripts["columns"] = table_columns(transcripts, columns)
        return None
    memory = memory_cases(cases, columns, transcripts.get("format", "auto"))
    if CASES in memory.files:  # a format cannot be that of Cases and of records
        transcripts["format"] = "auto"
    folder = scratch or KEPT_INPUTS
    transcripts["uri"] = write_files(memory, folder).as_posix()
    if memory.rows is not None:
        fields = table_columns(transcripts, columns)
        if fields is not None and "id" not in fields:
            memory = memory.with_places()
            transcripts["uri"] = write_files(memory, folder).as_posix()
            fields["id"] = PLACE
        transcripts["columns"] = fields
    return memory.digest


def _content_id(config: RunConfig, digest: str) -> str:
    """The id of a run over cases in memory: a hash of settings and cases, not of a scratch folder."""
    transcripts = config.transcripts.model_copy(update={"uri": digest})
    settings = config.model_copy(update={"transcripts": transcripts}).config_hash()
    return f"{config.name}-{hashlib.sha256(as_json([settings, digest]).encode()).hexdigest()[:12]}"


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if name not in EvaluateSettings.__annotations__:
            known = (*EvaluateSettings.__annotations__, *_PARAMETERS)
            raise ConfigurationError.unknown("setting", name, known, "evaluate")


def _settings_body(
    cases: CasesInput | RunConfig, choice: JudgeChoice, settings: EvaluateSettings
) -> dict[str, Any]:
    """The tables of the configuration, without the places of transcripts and store."""
    base = cases if isinstance(cases, RunConfig) else settings.get("config")
    body = _base_tables(base)
    values: Mapping[str, Any] = settings
    for name, (table, field) in _PLACES.items():
        if values.get(name) is not None:
            body.setdefault(table, {})[field] = values[name]
    if "name" in settings:
        body["name"] = settings["name"]
    judge = body.setdefault("judge", {})
    if choice.model is not None:
        judge["model"] = choice.model
        judge.pop("panel", None)  # the model takes its place
        judge.pop("provider", None)  # the name says it
    if choice.metrics is not None or choice.judges is not None:
        judge |= _chosen_judges(choice, tuple(judge.get("rubrics", ())))
        options = judge.get("options", {})
        judge["options"] = {name: options[name] for name in judge["judges"] if name in options}
    return body


def _base_tables(base: str | Path | Mapping[str, Any] | RunConfig | None) -> dict[str, Any]:
    if isinstance(base, str | Path):
        base = read_optional_config(Path(base))
    tables = base.model_dump() if isinstance(base, RunConfig) else dict(base or {})
    return {
        name: dict(table) if isinstance(table, Mapping) else table for name, table in tables.items()
    }


def _chosen_judges(choice: JudgeChoice, rubrics: Sequence[str]) -> dict[str, Any]:
    """The settings `metrics` and `judges` of [judge], with an error that leads on for a mix-up."""
    weights = _listed(choice.metrics)
    judges = [_judge_reference(judge) for judge in _listed(choice.judges)]
    defaults = {metric.name: metric.default_weight for metric in available_metrics(rubrics)}
    for name in weights:
        if name not in defaults and name in JUDGES:
            raise ConfigurationError(
                f"metrics: {name!r} is a judge with a metric of its own; write judges=[{name!r}]"
            )
    for name in judges:
        if name in defaults and name not in JUDGES:
            raise ConfigurationError(
                f"judges: {name!r} is a metric of the judge {CONVERSATION!r}; write metrics=[{name!r}]"
            )
    if (weights or not judges) and CONVERSATION not in judges:
        judges = [CONVERSATION, *judges]
    shares = weights if isinstance(weights, Mapping) else _default_weights(weights, defaults)
    metrics = [{"metric": name, "weight": weight} for name, weight in shares.items()]
    return {"judges": judges, "metrics": metrics or None}


def _listed(value: Any) -> Any:
    """A name or function alone as a list, nothing as an empty one; anything else as it stands."""
    return [value] if isinstance(value, str) or callable(value) else value or ()


def _default_weights(
    names: Sequence[str], defaults: Mapping[str, float]
) -> dict[str, float | None]:
    """The weights of metrics that are named alone; `None`: the metric's own.

    A metric without a weight of its own weighs as much as the others do on average.
    """
    own = [defaults[name] for name in names if defaults.get(name)]
    mean = sum(own) / len(own) if own else 1.0
    return {name: mean if defaults.get(name) == 0 else None for name in names}


def _judge_reference(judge: str | Callable[..., Any]) -> str:
    """A judge as the configuration names it: a function of your own is `module:name`."""
    if isinstance(judge, str):
        return judge
    name = getattr(judge, "__qualname__", "<locals>")
    if not name.isidentifier():
        raise ConfigurationError(
            f"judges: {name!r} cannot be found again by its name; define the judge at the top of a "
            "module or of a notebook"
        )
    return f"{judge.__module__}:{name}"


def _store_uri(store: str | Path) -> str:
    """The URI of a store that may be given as the path of a DuckDB file."""
    place = str(store)
    is_file = "://" not in place and not place.startswith("duckdb:")
    return f"duckdb:///{place}" if is_file and place.endswith((".duckdb", ".db")) else place
