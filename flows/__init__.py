"""Prefect flows: compositions of tasks that read like a table of contents."""

from assizes.tasks import QUIET as QUIET  # its variables are set before flows import Prefect
