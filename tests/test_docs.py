"""The docs are true: snippets run, links lead somewhere, tables and pictures are what the code makes of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, SNIPPET, run_elsewhere, run_snippets

import holdfast

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WRITTEN = [*PAGES, ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*/*.md"))]
BROUGHT = {"index.md", "architecture.md", "changes.md", "results.md", "decisions/index.md"}  # by tools/site.py
HERE = [page for page in PAGES if SNIPPET.search(page.read_text()) and page not in run_elsewhere()]


@pytest.mark.parametrize("order", [HERE, HERE[::-1]], ids=["forwards", "backwards"])
def test_the_snippets_of_all_pages_run_in_one_folder(
    order: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both orders have every page before and behind every other: none needs one, and none is in another's way."""
    monkeypatch.chdir(tmp_path)
    for page in order:
        run_snippets(str(page.relative_to(ROOT)))


def test_no_two_pages_open_the_same_store() -> None:
    opened = [
        (address, page.name)
        for page in PAGES
        for address in set(re.findall(r'"(\w+:///[^"{]+)"', "".join(SNIPPET.findall(page.read_text()))))
    ]
    assert ("sqlite:///agents.db", "README.md") in opened
    assert len({address for address, _ in opened}) == len(opened), sorted(opened)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if not target.startswith("http"):
            found = page.parent / target if target else page
            assert found.exists(), target
            assert not heading or heading in _headings(found), f"{target}#{heading}"


def _headings(page: Path) -> list[str]:
    """What the headings of a page are called in links."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles]


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"\b([a-z_]+\.py)\b", (ROOT / "ARCHITECTURE.md").read_text()))
    there = {path.name for path in ROOT.rglob("src/**/*.py")} | {path.name for path in (ROOT / "tools").glob("*.py")}
    assert named - there == {"x.py", "test_x.py", "_records.py"}


@pytest.mark.parametrize("tool", ["make_backends.py", "make_picture.py"])
def test_tables_and_pictures_are_what_the_code_makes_of_them(tool: str) -> None:
    made = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"], timeout=60)
    assert made.returncode == 0, f"run tools/{tool}"


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert named - BROUGHT == {page for page in there if not page.startswith("decisions/")}
    assert named >= BROUGHT


def test_every_public_name_is_in_the_reference() -> None:
    shown = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    assert {*holdfast.__all__, "open"} <= set(re.findall(r"^::: holdfast\.(\w+)$", shown, re.MULTILINE))


def test_every_public_name_and_call_says_what_it_does() -> None:
    silent = [name for name in holdfast.__all__ if not (getattr(holdfast, name).__doc__ or "").strip()]
    with holdfast.open("memory:") as hf:
        nouns = [*vars(hf).items(), ("hf", hf)]
    for noun, value in nouns:
        if not noun.startswith("_"):
            calls = (name for name in dir(value) if not name.startswith("_") and callable(getattr(value, name)))
            silent += [f"{noun}.{name}" for name in calls if not getattr(value, name).__doc__]
    assert silent == []
