"""`make docs`: the site builds without a warning and fetches nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

from tests.outward import PYTHONPATH

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[1]
FETCHED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_page_of_the_repository_is_on_the_site(site: Path):
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 35
    assert [page for page in pages if not (site / page).with_suffix(".html").exists()] == []


def test_llms_txt_names_every_page_and_its_markdown_is_there(site: Path):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    linked = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(linked) == pages
    assert len(linked) == len(pages)
    assert all((site / page).is_file() for page in linked)


def test_no_page_fetches_anything_from_elsewhere(site: Path):
    pages = sorted(site.rglob("*.html"))
    assert pages
    for page in pages:
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        for tag, attribute in FETCHED.items():
            for element in soup.find_all(tag):
                assert not re.match(r"(https?:)?//", element.get(attribute) or ""), element
        assert not soup.select(".mermaid")  # the theme would load a script to draw it


def test_no_style_of_the_site_fetches_anything_from_elsewhere(site: Path):
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"""url\(["']?(https?:)?//|@import""", text), style


def test_every_link_between_pages_leads_to_a_page_and_a_place_on_it(site: Path):
    ids = {
        page: {element["id"] for element in soup.select("[id]")} | {""}
        for page in site.rglob("*.html")
        for soup in [BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")]
    }
    for page in ids:
        if page.name == "404.html":  # its links are from the root of a server
            continue
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        for link in soup.select("article a[href]"):
            path, _, place = link["href"].partition("#")
            if re.match(r"\w+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), (page.name, link["href"])
            assert target.suffix != ".html" or place in ids[target], (page.name, link["href"])


def test_files_of_the_repository_that_pages_link_to_are_on_the_site(site: Path):
    assert (site / "files" / "deployments" / "prefect.yaml").read_bytes() == (
        ROOT / "deployments" / "prefect.yaml"
    ).read_bytes()


def test_the_navigation_has_the_four_kinds_of_pages():
    class Loader(yaml.SafeLoader):
        """Reads the file; what it names of Python stays a text."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, name, _node: name)
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]
    titles = [next(iter(entry)) for entry in nav]
    assert titles == [
        *("Assizes", "Tutorial", "How to", "Troubleshooting"),
        *("Glossary", "Reference", "Explanation"),
    ]


def test_no_file_of_the_site_names_a_host_of_a_registry():
    texts = [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    for path in texts:
        assert "pypi.org" not in path.read_text(encoding="utf-8"), path
        assert "pythonhosted" not in path.read_text(encoding="utf-8"), path
