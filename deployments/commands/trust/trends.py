"""`assizes trends`: the series of measures over all runs of one name, and their incidents."""

from __future__ import annotations

from pathlib import Path

from assizes.deployments.commands.output import print_json, print_line, print_table
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.history.trends import Trend, Trends
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.store import open_store


def show_trends(config: RunConfig, span: RunRange, plot: str | None, *, as_json: bool) -> int:
    """Print the series and the incidents of a range of runs.

    Args:
        config: names the store and the series.
        span: name of the runs, first day, and number of runs.
        plot: SVG file to write the series to; `None`: no file.
        as_json: print one JSON document.

    Returns:
        0, whatever the control charts find: a trend gates nothing.

    Raises:
        StoreError: there is no such run.
        ConfigurationError: a series, a slice or the plot file cannot be used.
    """
    with open_store(config.store) as store:
        trends = stored_trends(store, span, config.series)
    if plot is not None:
        _draw(trends, Path(plot))
    if as_json:
        print_json(trends.model_dump(mode="json"))
    else:
        _print(trends, config.series.reference_runs)
        if plot is not None:
            print_line(f"plot: {plot}")
    return 0


def _draw(trends: Trends, file: Path) -> None:
    from assizes.tasks.reports.render.trend_chart import trend_chart

    try:
        file.write_text(trend_chart(trends), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--plot {str(file)!r} cannot be written: {error.strerror or error}"
        ) from error


def _print(trends: Trends, needed: int) -> None:
    print_line(f"{trends.name}: {trends.runs} runs")
    rows = [_row(trend, needed) for trend in trends.series]
    columns = ("series", "slice", "#reference", "#last", "95 %", "#runs", "#z", "state")
    print_table("", columns, rows)
    for note in trends.notes:
        print_line(f"note: {note}")
    for incident in trends.incidents:
        print_line(incident.line())
    if not trends.incidents:
        print_line("no incident")


def _row(trend: Trend, needed: int) -> tuple[object, ...]:
    last = trend.points[-1]
    state: str = trend.state
    if state == "learning":
        state = f"learning, {trend.reference_runs} of {needed} runs"
    return (
        trend.series,
        trend.slice_of or "-",
        _number(trend.reference),
        _number(last.bridged),
        f"{_number(last.low)} to {_number(last.high)}",
        len(trend.points),
        "-" if last.z is None else f"{last.z:+.1f}",
        state,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
