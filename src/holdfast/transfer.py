"""Copying a namespace from any store to any other: one moment of the source, whole or not to be seen."""

from __future__ import annotations

from holdfast.arrivals import Arrival
from holdfast.contracts import Query, Reader
from holdfast.cuts import POINTERS, UNSEEN, Cut, take
from holdfast.errors import Busy
from holdfast.model import Copied
from holdfast.nouns import Ground
from holdfast.shipments import Report, Shipments

_ATTEMPTS = 10
_PASSES = 3  # one writes, the next compares; what changes in place meanwhile is only ever as it was or as it is


def transfer(source: Ground, target: Ground, progress: Report | None = None) -> Copied:
    """Bring everything of a source into a target; Busy if sessions are deleted faster than they can be copied."""
    shipments = Shipments(source.blobs, target.blobs, progress)
    arrival = Arrival(target.store, target.sweeps, shipments, target.timeout)
    written = 0
    for _ in range(_ATTEMPTS):
        cut = take(source.store)
        try:
            written += _bring(cut, arrival, shipments, source.store)
            if cut.stands():
                written += arrival.publish(cut)
                return Copied(records=shipments.records, written=written, blobs=shipments.blobs, bytes=shipments.size)
        finally:
            cut.close()
    raise Busy("sessions of the source are deleted faster than they can be copied; repeat when it is calmer")


def _bring(cut: Cut, arrival: Arrival, shipments: Shipments, reader: Reader) -> int:
    """Write all but the pointers, until a comparison finds nothing left to write."""
    arrival.begin(cut)
    written = 0
    for _ in range(_PASSES):
        shipments.expect({kind.name: reader.count(Query(kind=kind)) for kind in (*UNSEEN, *POINTERS)})
        wrote = arrival.bring(cut)
        written += wrote
        if not wrote:
            break
    return written
