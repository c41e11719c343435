"""The progress bar of an evaluation: in a terminal, in a notebook, nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import assizes
from assizes.deployments.library.progress import NotebookBar, is_notebook
from tests.deployments.library.logs import logs


def test_the_bar_of_a_notebook_counts_what_is_done():
    bar = NotebookBar()
    assert bar.html().startswith("<progress></progress> starting")
    bar.advance("reading", 30, 0)
    assert "reading 30" in bar.html()
    assert bar.advance("judging", 0, 30)
    assert not bar.advance("judging", 1, 0)  # too soon to be shown again
    bar.advance("judging", 4, 0)
    assert '<progress value="5" max="30"></progress> judging: 5 of 30 cases' in bar.html()


def test_a_script_is_no_notebook_and_gets_no_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert not is_notebook()
    assizes.evaluate(logs(1))
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_unless_it_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assizes.evaluate(logs(1), progress=False)
    assert capsys.readouterr().err == ""
    assizes.evaluate(logs(1))
    assert capsys.readouterr().err != ""
