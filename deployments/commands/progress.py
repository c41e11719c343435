"""The progress bar of a run on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich import progress as bars
from rich.console import Console

from assizes.tasks.context.run_context import progress_reporter


@contextlib.contextmanager
def show_progress_bar() -> Iterator[None]:
    """Inside this block, show on stderr what `progress_reporter` is told."""
    task = bars.TextColumn("{task.description}", markup=False)  # a stage is text, never markup
    numbers = (bars.MofNCompleteColumn(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    columns = (bars.SpinnerColumn(), task, bars.BarColumn(), *numbers)
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("starting", total=None)  # the stages say how much there is
        parts = progress.add_task("days", total=None, visible=False)

        def report(stage: str, done: int, total: int) -> None:
            if stage == "days" and total:  # how many days a backfill has in all
                progress.reset(parts, total=total, completed=done, visible=True)
            elif stage == "days":  # so many more have ended
                progress.advance(parts, done)
            else:
                _advance(progress, bar, stage, done, total)

        token = progress_reporter.set(report)
        try:
            yield
        finally:
            progress_reporter.reset(token)


def _advance(progress: bars.Progress, bar: bars.TaskID, stage: str, done: int, total: int) -> None:
    """Move the bar of the run by one report of a stage."""
    if stage == "reading":  # `done` so far; how many there are is not known yet
        progress.update(bar, description="reading transcripts", completed=done)
    elif total and progress.tasks[bar].description == stage:  # `done` so far
        progress.update(bar, total=total, completed=done)
    elif total:  # a new stage begins a new bar
        progress.reset(bar, total=total, completed=done, description=stage)
    else:
        progress.advance(bar, done)  # `done` since the last report
