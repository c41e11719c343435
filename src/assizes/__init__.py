"""Assizes: LLM-as-a-judge evaluation of agent conversations.

The four packages `assizes.judge`, `assizes.tasks`, `assizes.flows` and `assizes.deployments` depend on
one another in one direction only: deployments -> flows -> tasks -> judge.
"""
