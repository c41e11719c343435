"""The report of a run, as an HTML file, as Markdown and as JSON.

`schema` has the models of a report, `data` computes them, `render` makes files and artifacts.
"""

from assizes.tasks.reports.data.report import report_data
from assizes.tasks.reports.render.html import html_report
from assizes.tasks.reports.render.markdown import markdown_report
from assizes.tasks.reports.stored import json_report, write_report

__all__ = ["html_report", "json_report", "markdown_report", "report_data", "write_report"]
