"""Prefect flows: compositions of tasks that read like a table of contents."""

from assizes.tasks import QUIET as QUIET  # sets them before the modules below import Prefect
