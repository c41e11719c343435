"""Hooks of the documentation site: files of the repository that its pages link to, and llms.txt.

The pages lie in docs/ and are read on the site and in the repository alike. A link that leaves docs/,
such as `../deployments/prefect.yaml`, would lead nowhere on the site, so the file goes with it.

`llms.txt` in the root of the site lists the pages for language models, in the order of the
navigation. It links to the pages as Markdown, which go with it.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
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
                content = (ROOT / path).read_bytes()
                # A Markdown file among them becomes a page, which the navigation does not name.
                kind = InclusionLevel.NOT_IN_NAV
                file = File.generated(config, f"{FOLDER}/{path}", content=content, inclusion=kind)
                files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links to these files at their place on the site."""
    here = posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        path = outside(link[0], page.file.src_uri)
        return posixpath.relpath(f"{FOLDER}/{path}", here or ".") if path else link[0]

    return LINK.sub(moved, markdown)


LLMS: Final = "llms.txt"
SUMMARY_CHARS: Final = 200
"""Characters of the sentence about a page, at most."""

PLAIN_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def pages_of(nav: list[Any], section: str = "") -> Iterator[tuple[str, str, str]]:
    """The pages of a navigation in order: the heading they stand under, title, path below docs/."""
    for entry in nav:
        for title, target in entry.items():
            if isinstance(target, str):
                yield section, title, target
            else:
                yield from pages_of(target, title)


def summary_of(page: Path) -> str:
    """The first sentence of a page that is no heading, table, list or code."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->", "", page.read_text("utf-8"), flags=re.M | re.S)
    for block in re.split(r"\n\s*\n", text):
        line = " ".join(block.split())
        if line and line[0] not in "#|-*>!`<":
            sentence = re.split(r"(?<=[.:])\s", PLAIN_LINK.sub(r"\1", line))[0].rstrip(":")
            return sentence[:SUMMARY_CHARS]
    return ""


def llms_text(name: str, description: str, nav: list[Any], docs: Path) -> str:
    """The text of llms.txt: name, what it is, and under each heading its pages."""
    lines = [f"# {name}", "", f"> {description}", ""]
    lines += [
        "Assistants operate it with the command `assizes` or with `assizes mcp` (mcp.md).",
        "",
    ]
    heading = None
    for section, title, target in pages_of(nav):
        if section != heading:
            heading = section
            lines += ["", f"## {section or 'Begin'}", ""]
        summary = summary_of(docs / target)
        lines.append(f"- [{title}]({target})" + (f": {summary}" if summary else ""))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt, and beside each page its Markdown."""
    docs, site = Path(config.docs_dir), Path(config.site_dir)
    text = llms_text(config.site_name, config.site_description or "", config.nav or [], docs)
    (site / LLMS).write_text(text, encoding="utf-8")
    for _, _, target in pages_of(config.nav or []):
        (site / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(docs / target, site / target)
