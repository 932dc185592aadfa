"""Pages of the docs as programs: the tests of an adapter run its page where its framework is, test_docs the others."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_snippets(name: str) -> None:
    """Run the snippets of a page (`docs/x.md`) as one program, in the present folder."""
    page = ROOT / name
    names: dict[str, object] = {"__name__": page.stem}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, str(page), "exec"), names)


def run_elsewhere() -> set[Path]:
    """The pages that the tests in tests/adapters/ name, and run in environments of their own."""
    tests = (ROOT / "tests" / "adapters").glob("*/test_*.py")
    return {ROOT / name for test in tests for name in re.findall(r'run_snippets\("([^"]+)"\)', test.read_text())}
