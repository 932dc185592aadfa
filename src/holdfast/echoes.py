"""What repeats a message: values in which its text, or what one of its calls was given, stands again."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast import codec
from holdfast.model import Json, Message

_TELLING = 12  # characters from which on a text within another is no coincidence


class Echo:
    """A message to be forgotten, and where it is heard again."""

    def __init__(self, said: Message) -> None:
        self._texts = {text for text in (said.text, said.reasoning) if text}
        self._asked = {call.id: codec.encode(call.arguments, "arguments") for call in said.tool_calls}

    def in_value(self, value: Json) -> bool:
        """Whether the text is repeated here, alone or within something else."""
        if value is None or not self._texts:
            return False
        whole = {str(value), codec.encode(value, "a value").decode()}
        return bool(whole & self._texts) or any(self._in_text(text) for text in _strings(value))

    def _in_text(self, text: str) -> bool:
        return any(text == one or (len(one) >= _TELLING and one in text) for one in self._texts)

    def in_error(self, error: Json) -> bool:
        """Whether the message tells of this error, or the error repeats the message."""
        told = isinstance(error, str) and len(error) >= _TELLING and any(error in text for text in self._texts)
        return told or self.in_value(error)

    def in_call(self, call: str | None, arguments: Json) -> bool:
        """Whether this is what the message asked a tool."""
        asked = None if call is None else self._asked.get(call)
        return asked is not None and asked == codec.encode(arguments, "arguments")


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
