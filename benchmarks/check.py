"""Says of every promise whether the last run kept it; ends with 1 if one falls short or was not measured.

python benchmarks/check.py [results.json]
"""

from __future__ import annotations

import sys
from pathlib import Path

import figures
import msgspec
from limits import Verdict, verdicts

RESULTS = Path(__file__).with_name("results.json")


def line(verdict: Verdict) -> str:
    limit, figure = verdict.limit, verdict.figure
    sign = "≤" if limit.better == "smaller" else "≥"
    value, floor = ("–" if one is None else figures.shown(one.value, one.unit) for one in (figure, verdict.floor))
    return f"{verdict.word:<11}  {value:>12}  {sign} {limit.limit:<6g}  {floor:>9}  {limit.workload}: {limit.name}"


def main(path: Path) -> int:
    try:
        run = figures.load(path)
    except (OSError, msgspec.MsgspecError) as cause:
        print(f"no results to check: {cause}; `make bench` makes them", file=sys.stderr)
        return 1
    found = verdicts(run.figures)
    print(f"{'':<11}  {'figure':>12}  limit     {'floor':>9}", *map(line, found), sep="\n")
    short = [verdict for verdict in found if not verdict.holds]
    sizes = " (a quick run: its sizes prove nothing)" if run.quick else ""
    print(f"\n{len(found) - len(short)} of {len(found)} hold{sizes}")
    return 1 if short or run.quick else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else RESULTS))
