"""Hooks of the documentation site: files of the repository that its pages link to.

The pages lie in docs/ and are read on the site and in the repository alike. A link that leaves docs/,
such as `../deployments/prefect.yaml`, would lead nowhere on the site, so the file goes with it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = "files"
"""The folder of the site that holds these files."""

LINK: Final = re.compile(r"(?<=\]\()(?:\.\./)+[^)#\s]+(?=\))")


def outside(target: str, page: str) -> str | None:
    """The path from the repository's root of a file outside of docs/ that a page links to."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") or not (ROOT / path).is_file() else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file outside of docs/ that a page links to."""
    for page in files.documentation_pages():
        for target in LINK.findall(page.content_string):
            path = outside(target, page.src_uri)
            if path and f"{FOLDER}/{path}" not in files.src_uris:
                files.append(
                    File.generated(config, f"{FOLDER}/{path}", content=(ROOT / path).read_bytes())
                )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links to these files at their place on the site."""
    here = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        path = outside(link[0], page.file.src_uri)
        return posixpath.relpath(f"{FOLDER}/{path}", here or ".") if path else link[0]

    return LINK.sub(moved, markdown)
