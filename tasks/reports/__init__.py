"""The run report: one HTML file, Markdown, JSON; the Prefect artifacts are in `artifacts`."""

from tasks.reports.data import report_data
from tasks.reports.files import json_report, write_report
from tasks.reports.html import html_report
from tasks.reports.markdown import markdown_report

__all__ = ["html_report", "json_report", "markdown_report", "report_data", "write_report"]
