"""Says of every promise whether the last run kept it; ends with 1 if one falls short or was not measured.

python benchmarks/check.py [results.json]
"""

from __future__ import annotations

import sys
from pathlib import Path

import figures
import msgspec
from limits import FLOORS, Verdict, verdicts

RESULTS = Path(__file__).with_name("results.json")


def line(verdict: Verdict) -> str:
    limit = verdict.limit
    bound = f"{'≤' if limit.better == 'smaller' else '≥'} {limit.limit:g}"
    columns = f"{verdict.word:<12}  {verdict.shown:>12}  {bound:<8}  {verdict.floor_shown:>12}"
    return f"{columns}  {limit.workload}: {limit.name}"


def main(path: Path) -> int:
    try:
        run = figures.load(path)
    except FileNotFoundError:
        print(f"there are no results at {path}; `make bench` makes them", file=sys.stderr)
        return 1
    except (OSError, msgspec.MsgspecError) as cause:
        print(f"{path} cannot be read as results: {cause}; `make bench` makes them", file=sys.stderr)
        return 1
    found = verdicts(run.figures)
    print(f"{path.parent.name}/{path.name}. {run.taken} {run.machine}", "", sep="\n")
    print(f"{'verdict':<12}  {'figure':>12}  {'limit':<8}  {'floor':>12}", *map(line, found), "", FLOORS, sep="\n")
    short = [verdict for verdict in found if not verdict.holds]
    beyond = [verdict for verdict in short if verdict.word == "out of reach"]
    sizes = " (a quick run: its sizes prove nothing)" if run.quick else ""
    print(f"\n{len(found) - len(short)} of {len(found)} hold, {len(beyond)} out of reach{sizes}")
    return 1 if short or run.quick else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else RESULTS))
