"""The progress bar of an evaluation that is called from Python: in a terminal, or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from assizes.deployments.commands.progress import show_progress_bar
from assizes.tasks.context.run_context import progress_reporter

UPDATE_INTERVAL_S: Final = 0.2
"""Seconds between two updates of the bar in a notebook, at least."""


def show_progress(*, wanted: bool | None) -> AbstractContextManager[None]:
    """Show a progress bar in the block; `wanted` is `None`: in a terminal and in a notebook."""
    if wanted is False:
        return nullcontext()
    if is_notebook():
        return _show_notebook_bar()
    return show_progress_bar() if wanted or sys.stderr.isatty() else nullcontext()


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, and not a terminal of IPython."""
    shell: Any = sys.modules.get("IPython")  # a notebook has imported it
    shell = shell and shell.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None


@contextmanager
def _show_notebook_bar() -> Iterator[None]:
    from IPython import display as module

    display: Any = module  # IPython has no types
    bar = NotebookBar()
    handle = display.display(display.HTML(bar.html()), display_id=True)

    def report(stage: str, done: int, total: int) -> None:
        if bar.advance(stage, done, total):
            handle.update(display.HTML(bar.html()))

    token = progress_reporter.set(report)
    try:
        yield
    finally:
        progress_reporter.reset(token)
        handle.update(display.HTML(bar.html()))


@dataclass
class NotebookBar:
    """How far an evaluation is, and how it looks in a notebook."""

    stage: str = "starting"
    done: int = 0
    total: int = 0  # 0: not known
    began: float = field(default_factory=time.monotonic)  # seconds
    _shown_at: float = field(default=0.0, init=False)

    def advance(self, stage: str, done: int, total: int) -> bool:
        """Take one report, as `ProgressReporter` describes it; returns whether it is to be shown."""
        is_new = stage != self.stage
        if total or is_new or stage == "reading":  # `done` of it are finished by now
            self.done, self.total = done, total
        else:  # so many more are finished
            self.done += done
        self.stage = stage
        is_due = time.monotonic() - self._shown_at >= UPDATE_INTERVAL_S
        if not (is_new or is_due):
            return False
        self._shown_at = time.monotonic()
        return True

    def html(self) -> str:
        """The bar with a line about it."""
        spent = f"{time.monotonic() - self.began:.0f} s"
        if not self.total:
            return f"<progress></progress> {escape(self.stage)} {self.done or ''} ({spent})"
        return (
            f'<progress value="{self.done}" max="{self.total}"></progress> '
            f"{escape(self.stage)}: {self.done} of {self.total} cases ({spent})"
        )
