"""aethershell's tagged values as JSON: plain where JSON says the same, tagged as they are where it would not."""

from __future__ import annotations

from holdfast.model import Json

_SCALARS: dict[str, tuple[type, ...]] = {"Bool": (bool,), "Int": (int,), "Str": (str,)}
_TAGS = frozenset(
    ("Bool", "Int", "Float", "Str", "Uri", "Array", "Record", "Table", "Error", "Builtin", "Lambda", "AsyncLambda")
) | {"Future", "Null"}


def record_of(tagged: dict[str, Json]) -> dict[str, Json]:
    """A map of names to tagged values."""
    return {name: value_of(value) for name, value in tagged.items()}


def value_of(tagged: Json) -> Json:
    """One tagged value; 42, 42.0 and "42" stay three things, and a URI does not become a mere text."""
    if tagged == "Null":
        return None
    if not isinstance(tagged, dict) or len(tagged) != 1:
        return tagged
    [(tag, value)] = tagged.items()
    if tag in _SCALARS and type(value) in _SCALARS[tag]:
        return value
    if tag == "Float" and type(value) in (int, float):
        return float(value)
    if tag == "Array" and isinstance(value, list):
        return [value_of(one) for one in value]
    if tag == "Record" and isinstance(value, dict) and not _looks_tagged(value):
        return record_of(value)
    return tagged


def _looks_tagged(record: dict[str, Json]) -> bool:
    """Whether a record without its tag could be taken for another tagged value."""
    return len(record) == 1 and next(iter(record)) in _TAGS
