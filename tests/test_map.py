"""The map of the house in docs/architecture.md: every folder is on it, every file it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_house import LAYERS, MODULES, ROOT

ROW = re.compile(r"^\| (`[^|]+`) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")


def rows() -> dict[str, list[str]]:
    """The files to look at first, by the folders of a row."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = page.partition("## The house")[2].partition("\n## ")[0]
    return {folders: NAME.findall(files) for folders, files in ROW.findall(house)}


def test_every_folder_of_the_product_is_on_the_map_and_no_other():
    named = {one.rstrip("/") for folders in rows() for one in NAME.findall(folders)}
    there = {str(path.parent.relative_to(ROOT)) for path in MODULES}
    assert named == there
    assert set(LAYERS) <= named


def test_every_file_that_the_map_says_to_look_at_is_there():
    for folders, files in rows().items():
        first = Path(ROOT, NAME.findall(folders)[0])
        assert files
        for file in files:
            assert (first / file).is_file(), f"{first / file} is not there"
