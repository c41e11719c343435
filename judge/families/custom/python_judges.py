"""Judges written in Python: `module:function` and `module:Class` in [judge] judges.

A function from a case to scores is the second rung, anything that keeps the `Judge` protocol the
third. Modules are found as Python finds them, then in the current folder.
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
from assizes.judge.families.custom.references import referenced, refused
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.protocol import Judge, Steps
from assizes.judge.score import Metric, Score

_SETTING: Final = "[judge] judges"
_EXAMPLE: Final = "wanted module:function or module:Class, e.g. 'my_module:my_judge'"
_MEMBERS: Final = ("name", "version", "metrics", "missing", "judge")
_ENGINE_OPTIONS: Final = frozenset(JudgeOptions.model_fields)


class FunctionJudge:
    """A plain function `Case -> list[Score]` as a judge.

    Its name is the function's, its metrics are those of the function's attribute `metrics`, else
    one fraction named like it, its version the attribute `version`, else a hash of its module's
    source: a changed function is another judge.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the function and what it is called with besides the case."""
        self.name = name
        self.version = str(getattr(function, "version", None) or _source_hash(function))
        self.metrics = _declared(function) or (Metric(name, description=_first_line(function)),)
        self._function = function
        self._options = dict(options or {})

    def missing(self, case: Case) -> str | None:
        """The function decides by itself; it returns skipped scores where it does not apply."""
        return None

    def judge(self, case: Case) -> list[Score] | Steps[list[Score]]:
        """What the function finds; a function that asks is a generator.

        Raises:
            TypeError: when it returned anything but scores.
        """
        found = self._function(case, **self._options)
        if isinstance(found, Generator):
            return found
        scores = list(found) if isinstance(found, list | tuple) else [found]
        if strays := [type(one).__name__ for one in scores if not isinstance(one, Score)]:
            raise TypeError(f"{self.name} returned a {strays[0]}, wanted list[Score]")
        return scores


class _KeywordOptions(JudgeOptions):
    model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())


@dataclass(frozen=True, slots=True)
class Named:
    """An entry of the catalogue with the name rows carry."""

    name: str
    entry: JudgeEntry


def is_reference(judge: str) -> bool:
    """Whether an item of [judge] judges names code instead of an entry of the catalogue."""
    return ":" in judge


def imported(reference: str) -> Named:
    """The judge that `module:attribute` names.

    Raises:
        ConfigurationError: when the module or the attribute cannot be had or is no judge.
    """
    target = _target(reference)
    if inspect.iscoroutinefunction(target):
        raise _refused(reference, "is async; a judge does no I/O and is a plain function")
    if isinstance(target, type):
        return Named(_name(target, reference), _class_entry(target, reference))
    if isinstance(target, Judge):
        return Named(target.name, _entry(target, lambda _, _chosen: target, JudgeOptions))
    if callable(target):
        return Named(_name(target, reference), _function_entry(target, reference))
    raise _refused(reference, f"is a {type(target).__name__}; {_EXAMPLE}")


def _target(reference: str) -> Any:
    return referenced(reference, _SETTING, _EXAMPLE)


def _refused(reference: str, why: str) -> ConfigurationError:
    return refused(_SETTING, reference, why)


def _name(target: Any, reference: str) -> str:
    given = getattr(target, "name", None)
    if isinstance(given, str):
        return given
    return str(getattr(target, "__name__", reference.partition(":")[2]))


def _class_entry(target: type, reference: str) -> JudgeEntry:
    declared = getattr(target, "Options", None)
    if declared is not None and not (
        isinstance(declared, type) and issubclass(declared, JudgeOptions)
    ):
        raise _refused(
            reference,
            "has Options that are no subclass of assizes.judge.families.entry.JudgeOptions",
        )
    options = declared or _keyword_options(target, list(_parameters(target)))

    def made(given: Any, _chosen: Sequence[Any]) -> Judge:
        arguments = (given,) if declared else ()
        keywords = {} if declared else _keywords(given, list(_parameters(target)))
        try:
            return _kept(target(*arguments, **keywords), reference)
        except (TypeError, ValueError) as error:
            raise _refused(reference, f"cannot be made: {error}") from error

    return _entry(target, made, options)


def _function_entry(target: Callable[..., Any], reference: str) -> JudgeEntry:
    options = _parameters(target)[1:]
    name = _name(target, reference)
    return _entry(
        target,
        lambda given, _chosen: FunctionJudge(target, name, _keywords(given, options)),
        _keyword_options(target, options),
    )


def _entry(
    target: Any, made: Callable[[Any, Sequence[Any]], Judge], options: type[JudgeOptions]
) -> JudgeEntry:
    metrics = _declared(target)
    asks = inspect.isgeneratorfunction(getattr(target, "judge", target))
    offline = getattr(target, "offline", None)
    needs = getattr(target, "needs", None) or dict.fromkeys(n for m in metrics for n in m.needs)
    return JudgeEntry(
        description=_first_line(target),
        needs=tuple(needs),
        needs_ground_truth=any(metric.needs_ground_truth for metric in metrics),
        made=made,
        options=options,
        offline=offline if isinstance(offline, bool) else not asks,
    )


def _kept(judge: object, reference: str) -> Judge:
    if isinstance(judge, Judge):
        return judge
    absent = ", ".join(member for member in _MEMBERS if not hasattr(judge, member))
    raise _refused(reference, f"does not keep the Judge protocol: it lacks {absent}")


def _declared(target: Any) -> tuple[Metric, ...]:
    given = getattr(target, "metrics", None)
    found = tuple(given) if isinstance(given, list | tuple) else ()
    return found if all(isinstance(one, Metric) for one in found) else ()


def _parameters(target: Any) -> list[inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        found = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have none
        return []
    return [one for one in found if one.kind not in variadic]


def _keyword_options(target: Any, parameters: Sequence[inspect.Parameter]) -> type[JudgeOptions]:
    """Options as the parameters of a callable, validated by their annotations."""
    try:
        hints = typing.get_type_hints(vars(target).get("__init__", target))
    except (NameError, TypeError):
        hints = {}
    fields: dict[str, Any] = {
        one.name: (hints.get(one.name, Any), ... if one.default is one.empty else one.default)
        for one in parameters
        if one.name not in _ENGINE_OPTIONS
    }
    return create_model("Options", __base__=_KeywordOptions, **fields) if fields else JudgeOptions


def _keywords(options: JudgeOptions, parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    return {one.name: getattr(options, one.name) for one in parameters}


def _first_line(target: Any) -> str:
    text = inspect.getdoc(target) or ""
    return text.strip().partition("\n")[0] or "A judge of your own."


def _source_hash(function: Any) -> str:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None:
        return "1"
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
