"""The installation is the one that was locked, and the audit would say so if it were not."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.supply import (
    KNOWN,
    LAYERS,
    LOCK,
    ROOT,
    Installed,
    Locked,
    audit,
    imported,
    installed,
    known_bad,
    locked,
    proxy_imports,
    unknown_starts,
    unlocked,
)
from tests.supply.__main__ import sbom

LISTED = tomllib.loads(KNOWN.read_text(encoding="utf-8"))
THIEF = "import os; os.system('true')\n"


def release(name: str, version: str) -> Installed:
    return Installed(name, version, "MIT")


@pytest.mark.row("S12")
def test_nothing_is_found_here():
    assert {what: found for what, found in audit().items() if found} == {}


@pytest.mark.row("S12")
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("litellm", "1.82.7"),
        ("litellm", "1.82.8"),
        ("litellm", "1.83.6"),
        ("prefect", "3.6.21"),
        ("prefect", "3.6.13"),
        ("prefect", "3.6.28.dev1"),
        ("mlflow", "2.9.1"),
    ],
)
def test_a_known_bad_release_is_found(name: str, version: str):
    assert list(known_bad([release(name, version)], LISTED))


@pytest.mark.row("S12")
@pytest.mark.parametrize(("name", "version"), [("litellm", "1.83.7"), ("prefect", "3.8.8")])
def test_a_release_with_the_fault_mended_is_not(name: str, version: str):
    assert list(known_bad([release(name, version)], LISTED)) == []


@pytest.mark.row("S12")
def test_what_is_not_as_locked_is_found():
    pins = locked()
    strange = [release("evil", "1"), release("duckdb", "0.0.1"), release("setuptools", "1")]
    said = list(unlocked(strange, pins))
    assert said[0] == "evil 1: not in the lock"
    assert said[1].startswith("duckdb 0.0.1: the lock says ")
    assert len(said) == 2


@pytest.mark.row("S12")
def test_every_pin_has_a_hash_and_installing_asks_for_it(tmp_path: Path):
    assert all(pin.hashes for given in locked().values() for pin in given)
    (tmp_path / "lock").write_text("duckdb==2.0.0\nlitellm==1.82.8 \\\n    --hash=sha256:0\n")
    bare = locked(tmp_path / "lock")
    assert [pin.hashes for given in bare.values() for pin in given] == [0, 0]
    assert len(list(unlocked([], bare))) == 2
    assert isinstance(bare["litellm"][0], Locked)
    assert bare["litellm"][0].version == "1.82.8"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"--no-deps --require-hashes -r {LOCK.name}" in makefile


@pytest.mark.row("S12")
def test_code_that_runs_at_the_start_of_python_is_found(tmp_path: Path):
    (tmp_path / "litellm_init.pth").write_text(THIEF)
    (tmp_path / "a1_coverage.pth").write_text(THIEF)
    (tmp_path / "_editable_impl_assizes.pth").write_text(THIEF)
    (tmp_path / "sitecustomize.py").write_text(THIEF)
    assert [one.partition(":")[0] for one in unknown_starts(tmp_path, LISTED)] == [
        "_editable_impl_assizes.pth",
        "a1_coverage.pth",
        "litellm_init.pth",
        "sitecustomize.py",
    ]


@pytest.mark.row("S12")
def test_a_folder_on_the_path_is_no_code(tmp_path: Path):
    (tmp_path / "_editable_impl_assizes.pth").write_text("/work\n")
    assert list(unknown_starts(tmp_path, LISTED)) == []


@pytest.mark.full
@pytest.mark.row("S12")
def test_an_import_of_the_proxy_is_found_and_its_server_never_loaded(tmp_path: Path):
    for layer in LAYERS:
        (tmp_path / layer).mkdir()
    (tmp_path / "judge" / "a.py").write_text("def f():\n    from litellm import proxy\n")
    (tmp_path / "tasks" / "b.py").write_text("import litellm.proxy.proxy_server\n")
    assert len(list(proxy_imports(tmp_path))) == 2
    loads = "import sys, assizes.judge.models.litellm_model; print([m for m in sys.modules if 'proxy_server' in m])"
    done = subprocess.run(
        [sys.executable, "-c", loads], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.row("S12")
def test_the_bill_of_materials_names_everything():
    found = installed()
    bill = json.loads(json.dumps(sbom(found)))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {one["purl"] for one in bill["components"]} == {
        f"pkg:pypi/{one.name}@{one.version}" for one in found
    }


UNSAFE_MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "yaml"}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_NAMES = {"os.system", "os.popen", "subprocess.getoutput"}


def unsafe(tree: ast.AST) -> list[str]:
    """Ways of running what was meant to be read."""
    found: list[str] = []
    for node in ast.walk(tree):
        found += [one for one in imported(node) if one.partition(".")[0] in UNSAFE_MODULES]
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in UNSAFE_CALLS | UNSAFE_NAMES else []
            found += [
                f"{name}(shell=...)"
                for keyword in node.keywords
                if keyword.arg == "shell" and getattr(keyword.value, "value", True)
            ]
    return found


@pytest.mark.full
@pytest.mark.row("S7")
def test_nothing_that_is_read_is_run():
    found = {
        str(path.relative_to(ROOT)): said
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        if (said := unsafe(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.row("S7")
@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from yaml import load",
        "def f():\n    import cloudpickle.x",
        "eval('1')",
        "exec(text)",
        "subprocess.run('x', shell=True)",
        "subprocess.run('x', shell=chosen)",
        "os.system('x')",
    ],
)
def test_the_search_for_such_ways_finds_them(text: str):
    assert unsafe(ast.parse(text))
