"""A hook of mkdocs: brings README, ARCHITECTURE, CHANGELOG, results and a list of decisions into the site."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "changes.md": "CHANGELOG.md",
    "results.md": "benchmarks/RESULTS.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live outside of docs/, with links that lead within the site."""
    for page, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        wide = "---\nhide: [toc]\n---\n" if page == "index.md" else ""  # its tables need the room
        files.append(File.generated(config, page, content=wide + _relinked(text)))
    files.append(File.generated(config, "decisions/index.md", content=_decisions()))
    return files


def _relinked(text: str) -> str:
    for page, source in OUTSIDE.items():
        text = text.replace(f"]({source})", f"]({page})")
    return text.replace("](docs/decisions)", "](decisions/index.md)").replace("](docs/", "](")


def _decisions() -> str:
    """A list of the decisions by their headings."""
    rows = ["# Decisions", "", "Where two good engineers could disagree: what was chosen, and at what price.", ""]
    for path in sorted((ROOT / "docs/decisions").glob("0*.md")):
        heading = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        rows.append(f"- [{heading}]({path.name})")
    return "\n".join(rows) + "\n"
