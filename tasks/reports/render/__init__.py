"""Renders report data as HTML, Markdown, JUnit, Prometheus text, charts and Prefect artifacts."""
