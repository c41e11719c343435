"""Judges that a user writes in Python: `module:function` and `module:Class` in [judge] judges.

The simplest is a function from a case to scores; a class or an object must keep the `Judge`
protocol. A module is searched for on Python's path first, then in the current folder.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import logging
import re
import sys
import typing
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, create_model

from assizes.judge.case import Case
from assizes.judge.errors import ConfigurationError
from assizes.judge.families.entry import JudgeEntry, JudgeOptions
from assizes.judge.protocol import Judge, Steps
from assizes.judge.score import Metric, Score

log = logging.getLogger(__name__)

_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_LOAD_FAULTS: Final = (
    *(ImportError, SyntaxError, NameError, AttributeError),
    *(TypeError, ValueError, LookupError, OSError),
)
"""Exceptions that a user's module commonly raises while Python imports it."""

_FORMER_PACKAGES: Final = frozenset({"judge", "tasks", "flows", "deployments"})
"""Import names of this package's parts before they became parts of `assizes`."""


def load_reference(reference: str, setting: str, wanted: str) -> Any:
    """The attribute that `module:attribute` names; messages name `setting`, and what is `wanted`.

    Before a module of the current folder is imported for the first time, a warning says so.

    Raises:
        ConfigurationError: when the reference is malformed, the module cannot be imported, or it
            has no such attribute.
    """
    if not _REFERENCE.fullmatch(reference):
        raise ConfigurationError(f"{setting}: {reference!r}; {wanted}")
    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # At the end, so that a file of the current folder never hides an installed module.
        sys.path.append(here)
    # Else a file that was written a moment ago is not found.
    importlib.invalidate_caches()
    if (file := _file_here(module_name)) is not None:
        log.warning("%s %r runs code of the current folder: %s", setting, reference, file)
    try:
        module = importlib.import_module(module_name)
    except _LOAD_FAULTS as error:
        reason = f"{type(error).__name__}: {error}"
        missing = (error.name if isinstance(error, ModuleNotFoundError) else None) or ""
        if missing.partition(".")[0] in _FORMER_PACKAGES:
            reason += f"; what Assizes called {missing!r} has moved into the package `assizes`"
        raise reference_error(setting, reference, f"cannot be imported: {reason}") from error
    if not hasattr(module, attribute):
        place = getattr(module, "__file__", None) or "built in"
        why = f"names nothing: module {module_name!r} ({place}) has no such"
        raise reference_error(setting, reference, why)
    return getattr(module, attribute)


def _file_here(module_name: str) -> str | None:
    """The file of the current folder that an import would run; `None`: it runs none, or has done so."""
    if module_name in sys.modules:
        return None
    top = module_name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # a module without a specification; the import says more
        return None
    if spec is None:
        return None
    here, origin = Path.cwd(), Path(spec.origin or "")
    package = [Path(folder) for folder in spec.submodule_search_locations or ()]
    # The folder of the module itself: an environment may lie in the current folder too.
    if here in {folder.resolve().parent for folder in package}:
        return f"{module_name.replace('.', '/')}" + ("/" if module_name == top else ".py")
    return origin.name if not package and origin.resolve().parent == here else None


def reference_error(setting: str, reference: str, why: str) -> ConfigurationError:
    """The error for a reference that cannot be used: setting, reference and reason in one line."""
    return ConfigurationError(f"{setting}: {reference!r} {' '.join(why.split())}")


_SETTING: Final = "[judge] judges"
_EXAMPLE: Final = "wanted module:function or module:Class, e.g. 'my_module:my_judge'"
_MEMBERS: Final = ("name", "version", "metrics", "missing", "judge")
_ENGINE_OPTIONS: Final = frozenset(JudgeOptions.model_fields)


class FunctionJudge:
    """A function `Case -> list[Score]` as a judge; a generator function yields asks before that."""

    def __init__(
        self, function: Callable[..., Any], name: str, options: Mapping[str, Any] | None = None
    ) -> None:
        """Keep the function, and its keyword arguments beside the case."""
        self.name = name
        # By the source of its module a changed function is another judge.
        self.version = str(getattr(function, "version", None) or _source_hash(function))
        # Without declared metrics one fraction 0..1 with the name of the judge.
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
        if isinstance(result, Generator):  # it asks: the hearing drives it
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


def load_judge(reference: str) -> NamedEntry:
    """The catalogue entry of the judge that `module:attribute` names.

    Raises:
        ConfigurationError: when the attribute cannot be loaded, or is no judge.
    """
    target = load_reference(reference, _SETTING, _EXAMPLE)
    if inspect.iscoroutinefunction(target):
        why = "is async; a judge does no I/O and is a plain function"
        raise reference_error(_SETTING, reference, why)
    if isinstance(target, type):
        return NamedEntry(_name(target, reference), _class_entry(target, reference))
    if isinstance(target, Judge):
        return NamedEntry(target.name, _entry(target, lambda _, _chosen: target, JudgeOptions))
    if callable(target):
        name, parameters = _name(target, reference), _parameters(target)[1:]  # [0] is the case

        def create_judge(options: Any, _chosen: Sequence[Any]) -> Judge:
            return FunctionJudge(target, name, _keywords(options, parameters))

        options = _keyword_options(target, parameters)
        return NamedEntry(name, _entry(target, create_judge, options))
    raise reference_error(_SETTING, reference, f"is a {type(target).__name__}; {_EXAMPLE}")


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
        why = "has Options that are no subclass of assizes.judge.families.entry.JudgeOptions"
        raise reference_error(_SETTING, reference, why)
    parameters = _parameters(target)
    options = declared or _keyword_options(target, parameters)

    def create_judge(validated_options: Any, _chosen: Sequence[Any]) -> Judge:
        keywords = {} if declared else _keywords(validated_options, parameters)
        try:
            judge = target(validated_options) if declared else target(**keywords)
        except (TypeError, ValueError) as error:
            raise reference_error(_SETTING, reference, f"cannot be made: {error}") from error
        if isinstance(judge, Judge):
            return judge
        absent = ", ".join(member for member in _MEMBERS if not hasattr(judge, member))
        why = f"does not keep the Judge protocol: it lacks {absent}"
        raise reference_error(_SETTING, reference, why)

    return _entry(target, create_judge, options)


def _entry(
    target: Any, create_judge: Callable[[Any, Sequence[Any]], Judge], options: type[JudgeOptions]
) -> JudgeEntry:
    metrics = _declared_metrics(target)
    offline = getattr(target, "offline", None)
    needs = getattr(target, "needs", None) or dict.fromkeys(n for m in metrics for n in m.needs)
    return JudgeEntry(
        description=_first_line(target),
        needs=tuple(needs),
        needs_ground_truth=any(metric.needs_ground_truth for metric in metrics),
        create_judge=create_judge,
        options=options,
        offline=offline if isinstance(offline, bool) else not _asks(target),
    )


def _asks(target: Any) -> bool:
    """Whether a judge is a generator function, or by its annotation returns a generator."""
    judge = getattr(target, "judge", target)
    try:
        returned = typing.get_type_hints(judge).get("return")
    except _LOAD_FAULTS:  # annotations may name what is imported for type checkers only
        returned = None
    returns_generator = Generator in (returned, typing.get_origin(returned))
    return returns_generator or inspect.isgeneratorfunction(judge)


def _declared_metrics(target: Any) -> tuple[Metric, ...]:
    """The metrics in the attribute `metrics`; none where it is no list and no tuple.

    Raises:
        ConfigurationError: when one of them is no `Metric`.
    """
    declared = getattr(target, "metrics", None)
    metrics = tuple(declared) if isinstance(declared, list | tuple) else ()
    if strays := [metric for metric in metrics if not isinstance(metric, Metric)]:
        name = getattr(target, "__qualname__", type(target).__qualname__)
        raise ConfigurationError(
            f"{_SETTING}: metrics of {name} hold {strays[0]!r}, which is no assizes.judge.score.Metric"
        )
    return metrics


def _parameters(target: Any) -> list[inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return []
    return [parameter for parameter in parameters if parameter.kind not in variadic]


def _keyword_options(target: Any, parameters: Sequence[inspect.Parameter]) -> type[JudgeOptions]:
    """An options model with one field for each parameter, validated by the annotations."""
    # Annotations may name what is imported for type checkers only; then any value will do.
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
        if parameter.name not in _ENGINE_OPTIONS  # `JudgeOptions` has it
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
    # The whole file, since the function may call others of it.
    return "1" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
