"""What a source says that has no field of its own: kept in metadata, under `imported`."""

from __future__ import annotations

from typing import Any

from holdfast.model import Json

KEY = "imported"


def with_facts(own: Json, facts: dict[str, Json]) -> dict[str, Json] | None:
    """Metadata of the source's own and what else is known; metadata that is no object is a fact itself."""
    if own is not None and not isinstance(own, dict):
        return {KEY: {**facts, "metadata": own}}
    if not facts:
        return own
    if own is not None and KEY in own:
        return {KEY: {**facts, "metadata": own}}
    return {**(own or {}), KEY: facts}


def fact(metadata: dict[str, Json] | None, name: str) -> Json:
    """One thing that an import has written down, or None."""
    facts = (metadata or {}).get(KEY)
    return facts.get(name) if isinstance(facts, dict) else None


def given(**facts: Any) -> dict[str, Json]:
    """Those facts that say something."""
    return {name: value for name, value in facts.items() if value is not None and value != {} and value != []}
