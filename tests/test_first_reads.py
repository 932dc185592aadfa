"""Several threads may be the first to read a kind of value, all at the same moment."""

from __future__ import annotations

import subprocess
import sys

READ = """
import sys
from threading import Barrier, Thread

import msgspec

from holdfast import codec

sys.setswitchinterval(1e-6)


def fresh() -> type[msgspec.Struct]:
    inner = msgspec.defstruct("Inner", [(f"f{n}", list[int | str], []) for n in range(20)])
    return msgspec.defstruct("Outer", [("a", inner), *((f"g{n}", dict[str, list[inner]], {}) for n in range(20))])


def read(kind: type[msgspec.Struct], together: Barrier) -> None:
    together.wait()
    for _ in range(20):
        codec.decode(b'{"a":{"f0":[1]},"g0":{"x":[{"f1":["y"]}]}}', kind, "a value")


for _ in range(100):
    kind, together = fresh(), Barrier(4)
    threads = [Thread(target=read, args=(kind, together)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_read_a_kind_first_at_once_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", READ], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
