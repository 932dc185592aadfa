"""Every Python snippet in the README and the docs runs, page by page, in the order it is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SNIPPET.search(page.read_text())], ids=lambda page: page.name
)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, str(page), "exec"), names)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md"], ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_the_files_that_the_architecture_names_exist() -> None:
    named = set(re.findall(r"\b([a-z_]+\.py)\b", (ROOT / "ARCHITECTURE.md").read_text()))
    there = {path.name for path in ROOT.rglob("src/**/*.py")} | {path.name for path in (ROOT / "tools").glob("*.py")}
    assert named - there == {"x.py", "test_x.py", "_records.py"}
