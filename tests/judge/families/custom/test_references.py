"""References that the configuration of an earlier version holds."""

from __future__ import annotations

import sys

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.families.custom.python_judges import load_reference
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def _a_folder_of_the_user(tmp_path, monkeypatch):
    """The repository's root, whose folders have the former names, is not on the user's path."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in {"", str(ROOT)}])
    monkeypatch.chdir(tmp_path)


def message(reference: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_reference(reference, "[transcripts] redact", "wanted module:function")
    return str(caught.value)


def test_a_module_of_ours_by_its_former_name_is_said_to_have_moved():
    moved = "what Assizes called 'judge' has moved into the package `assizes`"
    assert message("judge.privacy.redaction:hide").endswith(moved)


def test_so_is_what_a_users_module_imports(tmp_path):
    (tmp_path / "written_for_an_older_version.py").write_text("from judge.case import Case\n")
    assert "'judge' has moved" in message("written_for_an_older_version:hide")


def test_any_other_module_that_is_missing_is_only_missing():
    assert message("nowhere_to_be_found:hide").endswith("No module named 'nowhere_to_be_found'")
