"""A framework's own value, kept beside the messages that say it: what they say already is left out of it.

A text that a message has is stored once, and the value still comes back as it was. In a template `{"$": 2}` stands for
the third thing that the messages say, `{"$": [2, 0, 40]}` for a piece of it, `$data` for bytes as base64, `$json` for a
value as JSON text, `$is` for an object with such a key of its own, and `$text` for what only JSON text can hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from holdfast import codec
from holdfast.errors import CorruptData, InvalidInput
from holdfast.model import Audio, Code, File, Image, Json, JsonPart, Message, Text, Video

Media = Image | Audio | Video | File
Load = Callable[[str], bytes]

_SHORT = 12  # characters that are not worth a reference
_PIECE = 24  # and those that are not worth a search
_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"separators": separators, "ensure_ascii": ascii} for separators in ((",", ":"), (", ", ": ")) for ascii in (0, 1)
)


def leave_out(value: Json, messages: Sequence[Message]) -> Json:
    """The value as a template of these messages, which are as `settled` makes them."""
    return _Leaving(messages).of(value)


def settled(message: Message) -> Message:
    """A message as it will be read: what its template refers to is what comes back."""
    return codec.encode_message(message)[1]


def put_back(template: Json, messages: Sequence[Message], load: Load) -> Json:
    """The value of a template; `load` reads an artifact. CorruptData if it is no template of these messages."""
    try:
        return _Putting(messages, load).of(template)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as cause:
        raise CorruptData(f"what a framework keeps beside a message does not fit it: {cause!r}") from cause


def storable(value: Json, what: str) -> bool:
    """Whether a value can be stored as it is; if not, `as_text` holds it."""
    try:
        codec.check_json(value, what)
        codec.encode(value, what)
    except InvalidInput:
        return False
    return True


def as_text(value: Json, what: str) -> Json:
    """The template of a value that JSON can write and Holdfast cannot store: NaN, huge numbers, torn Unicode."""
    try:
        return {"$text": json.dumps(value)}
    except (TypeError, ValueError, RecursionError) as cause:
        raise InvalidInput(f"{what} is no JSON: {cause}") from cause


def _sayings(messages: Sequence[Message]) -> Iterator[Json]:
    """What messages say, in an order that the same messages always have."""
    for message in messages:
        yield message.id
        yield message.tool_call_id
        for part in message.content:
            if isinstance(part, Text):
                yield part.text
            elif isinstance(part, Code):
                yield part.code
            elif isinstance(part, JsonPart):
                yield part.value
            elif isinstance(part, Media):
                yield part
        yield message.reasoning
        for call in message.tool_calls:
            yield from (call.id, call.arguments)


class _Leaving:
    """A value on its way to a template."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._said = list(enumerate(_sayings(messages)))
        self._texts = {one: n for n, one in reversed(self._said) if isinstance(one, str)}
        held = [(n, one) for n, one in reversed(self._said) if isinstance(one, dict | list)]
        self._values = {codec.encode(one, "a value"): n for n, one in held}

    def of(self, value: Json) -> Json:
        if isinstance(value, str):
            return value if len(value) < _SHORT else self._text(value)
        if not isinstance(value, dict | list):
            return value
        found = self._values.get(codec.encode(value, "a value")) if value and self._values else None
        if found is not None:
            return {"$": found}
        if isinstance(value, list):
            return [self.of(inner) for inner in value]
        left = {key: self.of(inner) for key, inner in value.items()}
        return {"$is": left} if any(key.startswith("$") for key in value) else left

    def _text(self, text: str) -> Json:
        if text in self._texts:
            return {"$": self._texts[text]}
        for n, said in self._said:
            reference = None
            if isinstance(said, str) and len(text) >= _PIECE and text in said:
                start = said.index(text)
                reference = {"$": [n, start, start + len(text)]}
            elif isinstance(said, Media):
                reference = _as_data(text, n, said)
            elif isinstance(said, dict | list):
                reference = _as_json(text, n, said)
            if reference is not None:
                return reference
        return text


def _as_data(text: str, n: int, part: Media) -> Json:
    encoded = base64.b64encode(part.data or b"").decode()
    return {"$data": [n, text.removesuffix(encoded)]} if encoded and text.endswith(encoded) else None


def _as_json(text: str, n: int, said: Json) -> Json:
    """A text that says the same as a value, where the order of its keys and its style are enough to write it again."""
    try:
        keys = list(_keys(json.loads(text))) if text[0] in "{[" else None
    except (ValueError, RecursionError):
        return None
    own = list(_keys(said))
    if keys is None or sorted(keys) != sorted(own):
        return None
    for style in range(len(_STYLES)):
        if _written(said, keys, style) == text:
            return {"$json": [n, style, *([] if keys == own else keys)]}
    return None


def _keys(value: Json) -> Iterator[str]:
    """The keys of all objects in a value, each object's before those of what is in it."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(inner)


def _written(said: Json, keys: Iterable[str], style: int) -> str | None:
    """A value as JSON text, with keys in this order; None if they are not its own."""
    try:
        return json.dumps(_arranged(said, iter(keys)), **_STYLES[style])
    except (KeyError, StopIteration):
        return None


def _arranged(value: Json, keys: Iterator[str]) -> Json:
    if isinstance(value, list):
        return [_arranged(inner, keys) for inner in value]
    if not isinstance(value, dict):
        return value
    own = [next(keys) for _ in value]
    return {key: _arranged(value[key], keys) for key in own}


class _Putting:
    """A template on its way back."""

    def __init__(self, messages: Sequence[Message], load: Load) -> None:
        self._said = list(_sayings(messages))
        self._load = load

    def of(self, template: Json) -> Json:
        if isinstance(template, list):
            return [self.of(inner) for inner in template]
        if not isinstance(template, dict):
            return template
        mark = next((key for key in template if key.startswith("$")), None)
        if mark is None:
            return {key: self.of(inner) for key, inner in template.items()}
        return self._marked(mark, template[mark])

    def _marked(self, mark: str, given: Any) -> Json:
        match mark:
            case "$" if isinstance(given, int):
                return self._said[given]
            case "$":
                n, start, end = given
                return self._said[n][start:end]
            case "$data":
                n, prefix = given
                return prefix + base64.b64encode(self._bytes(self._said[n])).decode()
            case "$json":
                n, style, *keys = given
                written = _written(self._said[n], keys or _keys(self._said[n]), style)
                if written is None:
                    raise ValueError(f"the keys are not {keys}")
                return written
            case "$is":
                return {key: self.of(inner) for key, inner in given.items()}
            case "$text":
                return json.loads(given)
        raise KeyError(mark)

    def _bytes(self, part: Media) -> bytes:
        if part.data is not None:
            return part.data
        if part.artifact_id is None:
            raise ValueError("a part has no bytes")
        return self._load(part.artifact_id)
