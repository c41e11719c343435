"""The skill file fits the published format, and names only tools and commands that there are."""

from __future__ import annotations

import re

import typer.main
import yaml

from assizes.deployments.agents.tools import ALL
from assizes.deployments.cli import app
from assizes.deployments.options import visible_commands
from tests.command import ROOT

SKILL = ROOT / "deployments/agents/assizes/SKILL.md"
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


def test_the_front_matter_is_as_the_format_says():
    _, front, body = SKILL.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields.keys() <= FIELDS
    assert fields["name"] == SKILL.parent.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 0 < len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert all(isinstance(text, str) for text in fields["metadata"].values())
    assert len(body.splitlines()) < 500


def test_it_names_only_tools_and_commands_that_there_are():
    text = SKILL.read_text(encoding="utf-8")
    tools = set(re.findall(r"`([a-z]+_[a-z]+)\(", text))
    assert tools <= {tool.name for tool in ALL}
    assert len(tools) >= 10
    known = visible_commands(typer.main.get_command(app))
    for words in re.findall(r"`assizes ([a-z-]+(?: [a-z]+)?)", text):
        assert words in known or words.split()[0] in known, words
