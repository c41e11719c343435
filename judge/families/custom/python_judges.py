"""Judges that a user writes in Python: `module:function` and `module:Class` in [judge] judges.

The simplest is a function from a case to scores; a class or an object must keep the `Judge`
protocol. A module is searched for on Python's path first, then in the current folder.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import typing
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, create_model

from assizes.judge.case import Case
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.references import load_reference, reference_error
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.protocol import Judge, Steps
from assizes.judge.score import Metric, Score

_SETTING: Final = "[judge] judges"
_EXAMPLE: Final = "wanted module:function or module:Class, e.g. 'my_module:my_judge'"
_MEMBERS: Final = ("name", "version", "metrics", "missing", "judge")
_ENGINE_OPTIONS: Final = frozenset(JudgeOptions.model_fields)


class FunctionJudge:
    """A plain function `Case -> list[Score]` as a judge.

    The metrics are the function's attribute `metrics`, or else one fraction 0..1 with the
    function's name. The version is the attribute `version`, or else a hash of the source of the
    function's module, so that a changed function is another judge.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the function, and its keyword arguments beside the case."""
        self.name = name
        self.version = str(getattr(function, "version", None) or _source_hash(function))
        self.metrics = _declared_metrics(function) or (
            Metric(name, description=_first_line(function)),
        )
        self._function = function
        self._options = dict(options or {})

    def missing(self, case: Case) -> str | None:
        """No case is skipped beforehand: the function returns skipped scores for such a case."""
        return None

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """The scores that the function returns, or its asks where it is a generator function.

        Raises:
            TypeError: when the function returned anything but scores.
        """
        result = self._function(case, **self._options)
        if isinstance(result, Generator):
            return result
        scores = list(result) if isinstance(result, list | tuple) else [result]
        if strays := [type(value).__name__ for value in scores if not isinstance(value, Score)]:
            raise TypeError(f"{self.name} returned a {strays[0]}, wanted list[Score]")
        return scores


class _KeywordOptions(JudgeOptions):
    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())


@dataclass(frozen=True, slots=True)
class NamedEntry:
    """An entry of the catalogue, with the name of the judge in the tables of a run."""

    name: str
    entry: JudgeEntry


def is_reference(judge: str) -> bool:
    """Whether an item of [judge] judges names Python code, not an entry of the catalogue."""
    return ":" in judge


def load_judge(reference: str) -> NamedEntry:
    """The catalogue entry of the judge that `module:attribute` names.

    Raises:
        ConfigurationError: when the attribute cannot be loaded, or is no judge.
    """
    target = load_reference(reference, _SETTING, _EXAMPLE)
    if inspect.iscoroutinefunction(target):
        raise _reference_error(reference, "is async; a judge does no I/O and is a plain function")
    if isinstance(target, type):
        return NamedEntry(_name(target, reference), _class_entry(target, reference))
    if isinstance(target, Judge):
        return NamedEntry(target.name, _entry(target, lambda _, _chosen: target, JudgeOptions))
    if callable(target):
        return NamedEntry(_name(target, reference), _function_entry(target, reference))
    raise _reference_error(reference, f"is a {type(target).__name__}; {_EXAMPLE}")


def _reference_error(reference: str, why: str) -> ConfigurationError:
    return reference_error(_SETTING, reference, why)


def _name(target: Any, reference: str) -> str:
    own_name = getattr(target, "name", None)
    if isinstance(own_name, str):
        return own_name
    return str(getattr(target, "__name__", reference.partition(":")[2]))


def _class_entry(target: type, reference: str) -> JudgeEntry:
    declared = getattr(target, "Options", None)
    if declared is not None and not (
        isinstance(declared, type) and issubclass(declared, JudgeOptions)
    ):
        raise _reference_error(
            reference,
            "has Options that are no subclass of assizes.judge.families.entry.JudgeOptions",
        )
    options = declared or _keyword_options(target, list(_parameters(target)))

    def create_judge(validated_options: Any, _chosen: Sequence[Any]) -> Judge:
        arguments = (validated_options,) if declared else ()
        keywords = {} if declared else _keywords(validated_options, list(_parameters(target)))
        try:
            judge = target(*arguments, **keywords)
        except (TypeError, ValueError) as error:
            raise _reference_error(reference, f"cannot be made: {error}") from error
        if isinstance(judge, Judge):
            return judge
        absent = ", ".join(member for member in _MEMBERS if not hasattr(judge, member))
        why = f"does not keep the Judge protocol: it lacks {absent}"
        raise _reference_error(reference, why)

    return _entry(target, create_judge, options)


def _function_entry(target: Callable[..., Any], reference: str) -> JudgeEntry:
    options = _parameters(target)[1:]
    name = _name(target, reference)
    return _entry(
        target,
        lambda validated_options, _chosen: FunctionJudge(
            target, name, _keywords(validated_options, options)
        ),
        _keyword_options(target, options),
    )


def _entry(
    target: Any, create_judge: Callable[[Any, Sequence[Any]], Judge], options: type[JudgeOptions]
) -> JudgeEntry:
    metrics = _declared_metrics(target)
    asks = inspect.isgeneratorfunction(getattr(target, "judge", target))
    offline = getattr(target, "offline", None)
    needs = getattr(target, "needs", None) or dict.fromkeys(n for m in metrics for n in m.needs)
    return JudgeEntry(
        description=_first_line(target),
        needs=tuple(needs),
        needs_ground_truth=any(metric.needs_ground_truth for metric in metrics),
        create_judge=create_judge,
        options=options,
        offline=offline if isinstance(offline, bool) else not asks,
    )


def _declared_metrics(target: Any) -> tuple[Metric, ...]:
    own_metrics = getattr(target, "metrics", None)
    metrics = tuple(own_metrics) if isinstance(own_metrics, list | tuple) else ()
    return metrics if all(isinstance(metric, Metric) for metric in metrics) else ()


def _parameters(target: Any) -> list[inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return []
    return [parameter for parameter in parameters if parameter.kind not in variadic]


def _keyword_options(target: Any, parameters: Sequence[inspect.Parameter]) -> type[JudgeOptions]:
    """An options model with one field for each parameter, validated by the annotations."""
    try:
        hints = typing.get_type_hints(vars(target).get("__init__", target))
    except (NameError, TypeError):
        hints = {}
    fields: dict[str, Any] = {
        parameter.name: (
            hints.get(parameter.name, Any),
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in parameters
        if parameter.name not in _ENGINE_OPTIONS
    }
    return create_model("Options", __base__=_KeywordOptions, **fields) if fields else JudgeOptions


def _keywords(options: JudgeOptions, parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    return {parameter.name: getattr(options, parameter.name) for parameter in parameters}


def _first_line(target: Any) -> str:
    text = inspect.getdoc(target) or ""
    return text.strip().partition("\n")[0] or "A judge of your own."


def _source_hash(function: Any) -> str:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return "1"
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
