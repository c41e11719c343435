"""The checklist of features: every row is asserted by a test, and no test claims a row there is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checklist import carried_ids, listed_ids


@pytest.fixture(scope="module")
def carried() -> dict[str, list[str]]:
    return carried_ids()


def test_every_row_of_the_checklist_is_asserted_by_a_test(carried: dict[str, list[str]]):
    assert [one for one in listed_ids() if one not in carried] == []


def test_no_test_carries_an_id_that_the_checklist_does_not_have(carried: dict[str, list[str]]):
    listed = set(listed_ids())
    strays = {one: tests for one, tests in carried.items() if one not in listed}
    assert strays == {}


def test_the_checklist_has_each_id_once_and_in_order():
    assert listed_ids() == sorted(set(listed_ids()))


def test_ids_are_found_on_tests_classes_and_parameters(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_it.py").write_text(
        """
import pytest

IDS = "000-99"

@pytest.mark.row("000-01", "000-02")
async def test_one(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.row("000-03")), 2])
@pytest.mark.parametrize("y", ["000-97"])
def test_two(x, y): ...

@pytest.mark.parametrize(
    "x", [pytest.param(n, marks=pytest.mark.row(*ids)) for ids, n in [(("000-04",), 1)]]
)
@pytest.mark.row("000-01")
def test_three(x): ...
""",
        "utf-8",
    )
    (tmp_path / "helper.py").write_text('@pytest.mark.row("000-96")\ndef test_no(): ...', "utf-8")
    found = carried_ids(tmp_path)
    assert found == {
        "000-01": ["sub/test_it.py::test_one", "sub/test_it.py::test_three"],
        "000-02": ["sub/test_it.py::test_one"],
        "000-03": ["sub/test_it.py::test_two"],
        "000-04": ["sub/test_it.py::test_three"],
    }
