"""`assizes trends`: series over the runs of a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assizes.deployments.commands import output
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.history.trends import Trend, Trends
from assizes.tasks.runs.history import RunRange, slices_of_cases, stored_trends
from assizes.tasks.store import Store, open_store


def show_trends(
    config: RunConfig,
    span: RunRange,
    plot: str | None,
    slices: Sequence[str],  # those that were typed: cases must have them
    *,
    as_json: bool,
) -> None:
    """Print the series and the incidents of a range of runs; draw them to the SVG file `plot`.

    Raises:
        StoreError: there is no such run.
        ConfigurationError: a series, a slice or the plot file cannot be used.
    """
    if plot is not None and not plot.lower().endswith(".svg"):
        raise ConfigurationError(f"--plot {plot!r}: the series are drawn as SVG; name a .svg file")
    with open_store(config.store) as store:
        trends = stored_trends(store, span, config.series)
        _check_slices(store, trends, slices)
        if not store.people.rows("labels").is_empty():
            # It loads what estimates from labels, which takes longer than to read the trends.
            from assizes.tasks.runs.corrected_rows import trends_with_corrections

            trends = trends_with_corrections(store, trends)
    if plot is not None:
        from assizes.tasks.reports.render.trend_chart import trend_chart

        try:
            Path(plot).write_text(trend_chart(trends), encoding="utf-8")
        except OSError as error:
            fault = f"--plot {str(Path(plot))!r} cannot be written"
            raise ConfigurationError(f"{fault}: {error.strerror or error}") from error
    if as_json:
        output.print_json(trends.model_dump(mode="json"))
    else:
        _print_trends(trends, config.series.reference_runs)
        if plot is not None:
            output.print_line(f"plot: {plot}")


def _check_slices(store: Store, trends: Trends, slices: Sequence[str]) -> None:
    seen = {trend.slice_of.partition("=")[0] for trend in trends.series}
    if not (unseen := [name for name in slices if name not in seen]):
        return
    known = slices_of_cases(store, trends.series[0].points[-1].run_id)  # of the newest run
    if unknown := [name for name in unseen if name not in known]:
        raise ConfigurationError(
            f"--slice {unknown[0]!r}: no case of these runs has it; they have "
            f"{', '.join(known) or 'none'}"
        )


def _print_trends(trends: Trends, needed: int) -> None:
    output.print_line(f"{trends.name}: {trends.runs:,} run{'' if trends.runs == 1 else 's'}")
    rows = [_trend_row(trend, needed) for trend in trends.series]
    columns = ("series", "slice", "#reference", "#last", "95 %", "#runs", "#z", "state")
    output.print_table("", columns, rows)
    _print_corrections(trends)
    output.print_lines(f"note: {note}" for note in trends.notes)
    output.print_lines(incident.line() for incident in trends.incidents)
    if not trends.incidents:
        output.print_line("no incident")


def _print_corrections(trends: Trends) -> None:
    """Print the corrected values beside the judge's, run by run, and where their labels are from."""
    rows = [
        (
            trend.series,
            trend.slice_of or "-",
            point.run_id,
            _number(point.value),
            _number(point.corrected.value),
            f"{_number(point.corrected.low)} to {_number(point.corrected.high)}",
            point.corrected.note,
        )
        for trend in trends.series
        for point in trend.points
        if point.corrected is not None
    ]
    if rows:
        columns = ("series", "slice", "run", "#judge", "#corrected", "95 %", "labels")
        output.print_table("corrected by labels of people", columns, rows)


def _trend_row(trend: Trend, needed: int) -> tuple[object, ...]:
    last = trend.points[-1]
    state: str = trend.state
    if state == "learning":
        state = f"learning, {trend.reference_runs} of {needed} runs"
    return (
        trend.series,
        trend.slice_of or "-",
        _number(trend.reference),
        _number(last.bridged),  # as the judge of today would score it, where that is known
        f"{_number(last.low)} to {_number(last.high)}",
        len(trend.points),
        "-" if last.z is None else f"{last.z:+.1f}",
        state,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
