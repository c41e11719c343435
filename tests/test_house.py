"""The house itself: sizes, one broad except, documented columns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from assizes.judge.rows import TABLES

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("judge", "tasks", "flows", "deployments")
MODULES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
BESIDE = [path for name in ("tests", "benchmarks") for path in sorted((ROOT / name).rglob("*.py"))]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or getattr(kind, "id", "") in {"Exception", "BaseException"} for kind in kinds
    )


@pytest.mark.parametrize("path", [*MODULES, *BESIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_over_400_lines_and_no_function_over_50(path: Path):
    text = path.read_text(encoding="utf-8")
    long = {
        one.name: (one.end_lineno or 0) - one.lineno + 1
        for one in functions(ast.parse(text))
        if (one.end_lineno or 0) - one.lineno + 1 > 50
    }
    assert text.count("\n") <= 400
    assert long == {}


def test_everything_is_caught_in_one_place_only():
    broad = [
        str(path.relative_to(ROOT))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]
    assert broad == ["tasks/judge_shard.py"]


def test_every_public_column_is_documented():
    page = (ROOT / "docs" / "rows.md").read_text(encoding="utf-8")
    missing = {
        f"{table}.{column}"
        for table, schema in TABLES.items()
        for column in schema
        if column not in page
    }
    assert missing == set()
