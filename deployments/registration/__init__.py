"""Deployments, automations and limits of a configuration, and their registration with Prefect."""
