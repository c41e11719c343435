"""The house itself: sizes, names, one broad except, no circles, documented columns."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from assizes.judge.rows import TABLES

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("judge", "tasks", "flows", "deployments")
MODULES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
BESIDE = [path for name in ("tests", "benchmarks") for path in sorted((ROOT / name).rglob("*.py"))]

SHARED = pytest.mark.xdist_group("syntax trees")  # one process reads them, once
MAX_MODULES_IN_A_FOLDER = 20
MAX_PARTICIPLE_SHARE = 0.02
MAX_EMPTY_LOCALS_PER_LINE = 0.001

IRREGULAR_PARTICIPLES = frozenset(
    [
        "told",
        "heard",
        "kept",
        "found",
        "left",
        "taken",
        "said",
        "made",
        "drawn",
        "held",
        "sent",
        "given",
        "gone",
        "come",
        "came",
        "known",
        "seen",
        "shown",
        "put",
        "met",
        "paid",
        "spent",
        "lost",
        "begun",
        "done",
        "set",
    ]
)
NO_PARTICIPLES = frozenset({"embed", "speed", "feed", "seed", "need"})
EMPTY_LOCALS = frozenset({"one", "found", "told", "it", "said", "given", "came"})
NULL_FOR_NONE = re.compile(r"(?<![`\w])(?<!JSON )null\b(?!`)")
"""`null` in a docstring; JSON null and `null` in backticks are said as such."""


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax trees of our modules."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def product_functions() -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for tree in trees().values():
        yield from functions(tree)


def is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or getattr(kind, "id", "") in {"Exception", "BaseException"} for kind in kinds
    )


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    if "_" in word or word in NO_PARTICIPLES:
        return False
    return word in IRREGULAR_PARTICIPLES or (len(word) > 4 and word.endswith("ed"))


def module_name(path: Path) -> str:
    """As it is imported below `assizes`, without that."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports() -> dict[str, set[str]]:
    """The modules of the product that each one imports, wherever in its text it does so."""
    names = {module_name(path) for path in MODULES}
    graph: dict[str, set[str]] = {}
    for path, tree in trees().items():
        targets = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("assizes."):
                module = (node.module or "").removeprefix("assizes.")
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    targets.add(inner if inner in names else module)
        graph[module_name(path)] = (targets & names) - {module_name(path)}
    return graph


@pytest.mark.parametrize("path", [*MODULES, *BESIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_over_400_lines_and_no_function_over_50(path: Path):
    text = path.read_text(encoding="utf-8")
    long = {
        function.name: (function.end_lineno or 0) - function.lineno + 1
        for function in functions(ast.parse(text))
        if (function.end_lineno or 0) - function.lineno + 1 > 50
    }
    assert text.count("\n") <= 400
    assert long == {}


@SHARED
def test_everything_is_caught_in_one_place_only():
    broad = [
        str(path.relative_to(ROOT))
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]
    assert broad == ["tasks/context/hearing.py"]


def test_no_folder_holds_more_modules_than_one_can_look_at():
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    crowded = {
        str(folder.relative_to(ROOT)): count
        for folder, count in folders.items()
        if count > MAX_MODULES_IN_A_FOLDER
    }
    assert crowded == {}


@SHARED
def test_modules_and_folders_depend_on_each_other_without_circles():
    """Of each folder: its modules and folders, imports in functions and for types included."""
    graph = imports()
    folders = {"", *(name.rpartition(".")[0] for name in graph)}
    for folder in sorted(folders):
        inside = f"{folder}." if folder else ""
        children: defaultdict[str, set[str]] = defaultdict(set)
        for name, targets in graph.items():
            for target in targets:
                if name.startswith(inside) and target.startswith(inside):
                    child, other = (
                        module.removeprefix(inside).split(".")[0] for module in (name, target)
                    )
                    children[child] |= {other} - {child}
        try:
            TopologicalSorter(children).prepare()
        except CycleError as error:
            pytest.fail(f"{folder or 'assizes'}: {' -> '.join(error.args[1])}")


@SHARED
def test_functions_are_named_by_verbs_or_by_what_they_return():
    names = [function.name for function in product_functions()]
    bare = Counter(name for name in names if is_bare_participle(name))
    assert bare.total() <= MAX_PARTICIPLE_SHARE * len(names), bare


@SHARED
def test_locals_say_what_they_hold():
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in MODULES)
    empty = Counter(
        node.id
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and node.id in EMPTY_LOCALS
    )
    assert empty.total() <= MAX_EMPTY_LOCALS_PER_LINE * lines, empty


@SHARED
def test_a_class_name_stands_for_one_class():
    """Private namesakes of one another are let be; a public name is nobody else's."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path.relative_to(ROOT)}: {node.name}")
    twice = {
        name: at
        for name, at in places.items()
        if len(at) > 1 and any(place.endswith(f" {name}") for place in at)
    }
    assert twice == {}


@SHARED
def test_docstrings_say_none_where_python_says_none():
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    places = [
        f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, documented) and NULL_FOR_NONE.search(ast.get_docstring(node) or "")
    ]
    assert places == []


def test_every_public_column_is_documented():
    page = (ROOT / "docs" / "rows.md").read_text(encoding="utf-8")
    missing = {
        f"{table}.{column}"
        for table, schema in TABLES.items()
        for column in schema
        if column not in page
    }
    assert missing == set()
