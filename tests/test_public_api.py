"""The names that `import assizes` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import assizes
from tests.outward import PYTHONPATH


def test_every_public_name_is_there():
    there = {name: getattr(assizes, name) for name in assizes.__all__}
    assert sorted(there) == dir(assizes)
    assert there["judges"].correctness
    assert assizes.__version__[0].isdigit()
    assert there["RunConfig"].model_validate({"transcripts": {"uri": "t"}}).transcripts.uri == "t"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'assizes' has no attribute 'Jury'"):
        _ = assizes.Jury


def test_the_package_alone_imports_nothing_heavy():
    assert not imported("import assizes") & {"prefect", "polars", "litellm"}


def test_flows_start_without_what_only_some_runs_need():
    loaded = imported("import assizes.flows.nightly, assizes; assizes.evaluate")
    assert not loaded & {"sklearn", "scipy.stats", "scipy.optimize", "scipy.cluster", "pandas"}
    assert "prefect" in loaded
    assert "altair" in loaded, "a run would import it at its end, where somebody waits"


def test_what_draws_nothing_imports_no_charts():
    loaded = imported("import assizes.deployments.commands.show, assizes; assizes.evaluate")
    assert "polars" in loaded
    assert "altair" not in loaded


def imported(program: str) -> set[str]:
    """The modules that a new interpreter has imported at the end of a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
