"""Writes the judge tables into a folder: a page, tables for other tools, and the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from assizes.judge.errors import ConfigurationError
from assizes.tasks.recorded.chart import kappa_chart
from assizes.tasks.recorded.document import JudgeTables
from assizes.tasks.recorded.page import markdown_page
from assizes.tasks.recorded.table import as_frame

PAGE: Final = "judge-tables.md"
TABLE: Final = "judge-tables.parquet"
FIGURES: Final = "published-figures.parquet"
CHART: Final = "judge-tables.svg"
FILES: Final = (PAGE, TABLE, FIGURES, CHART)


def write_tables(tables: JudgeTables, folder: Path) -> None:
    """Write the files of `FILES` into a folder, which is made where it is missing.

    Raises:
        ConfigurationError: the folder cannot be made or written.
    """
    figures = [{**figure.model_dump(), "equal": figure.is_equal} for figure in tables.figures]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PAGE).write_text(markdown_page(tables), encoding="utf-8")
        (folder / CHART).write_text(kappa_chart(tables.rows), encoding="utf-8")
        as_frame(tables.rows).write_parquet(folder / TABLE)
        pl.DataFrame(figures).write_parquet(folder / FIGURES)
    except OSError as error:
        raise ConfigurationError(
            f"--out {str(folder)!r} cannot be written: {error.strerror or error}"
        ) from error
