"""An extension of griffe: shows a Struct with its fields as the parameters it is made with."""

from __future__ import annotations

from typing import Any

import griffe

_ROOTS = {"Struct", "Value"}


class Structs(griffe.Extension):
    """Gives each Struct the `__init__` that msgspec makes when the class is defined."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Walk through the whole package, once all of it is loaded and bases can be found."""
        self._walk(pkg)

    def _walk(self, module: griffe.Module) -> None:
        for member in module.members.values():
            if isinstance(member, griffe.Module):
                self._walk(member)
            elif isinstance(member, griffe.Class) and _is_struct(member) and "__init__" not in member.members:
                member.set_member("__init__", _init(member))


def _is_struct(one: griffe.Class) -> bool:
    names = {str(base).rpartition(".")[2] for base in one.bases}
    return bool(names & _ROOTS) or any(
        _is_struct(base) for base in one.resolved_bases if isinstance(base, griffe.Class)
    )


def _fields(one: griffe.Class) -> dict[str, griffe.Attribute]:
    found: dict[str, griffe.Attribute] = {}
    for base in one.resolved_bases:
        if isinstance(base, griffe.Class):
            found |= _fields(base)
    own = {name: member for name, member in one.members.items() if isinstance(member, griffe.Attribute)}
    return found | {
        name: member
        for name, member in own.items()
        if member.annotation is not None
        and "property" not in member.labels
        and "ClassVar" not in str(member.annotation)
    }


def _init(one: griffe.Class) -> griffe.Function:
    named = str(one.keywords.get("kw_only")) == "True"
    kind = griffe.ParameterKind.keyword_only if named else griffe.ParameterKind.positional_or_keyword
    parameters = [
        griffe.Parameter(name, annotation=field.annotation, kind=kind, default=field.value)
        for name, field in _fields(one).items()
    ]
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters), returns="None", parent=one)
