"""An agent of the Claude Agent SDK whose transcript is in Holdfast: kill it, run it again, and it goes on.

    python examples/claude_agent_store.py sqlite:///chat.db

It runs offline: the SDK's own Claude Code talks to a scripted model in this process, and keeps nothing on disk but in
the store. `--die-at 2` kills the process at its second model call, as a power cut would.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID, uuid5

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    create_sdk_mcp_server,
    project_key_for_directory,
    tool,
)

import holdfast
from holdfast.adapters.claude_agent import HoldfastSessionStore, session_id_of

PORTS = ["Brest", "Saint-Malo", "Roscoff"]
SESSION = str(uuid5(UUID(int=0), "harbour"))
TOOL = "mcp__harbour__high_tide"


async def high_tide(asked: dict[str, Any]) -> dict[str, Any]:
    """The one tool of the agent."""
    port = asked["port"]
    return {"content": [{"type": "text", "text": f"high tide in {port} at {6 + len(port) % 5}:12"}]}


class Script(BaseHTTPRequestHandler):
    """A model that looks up the tide for the port it is asked about, and then says what it has found."""

    protocol_version = "HTTP/1.1"
    calls = 0
    die_at: int | None = None

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Script.calls += 1
        if Script.calls == Script.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._send("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _events(asked)))

    def do_HEAD(self) -> None:
        self._send("")

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def _send(self, text: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def _events(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An answer as the API streams it."""
    n = len(asked["messages"])
    block, delta, reason = _answer(asked["messages"], n)
    begun = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    used = {"input_tokens": 100, "output_tokens": 20}
    yield {"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None, "usage": used}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": used}
    yield {"type": "message_stop"}


def _answer(messages: list[Any], n: int) -> tuple[dict[str, Any], dict[str, Any], str]:
    blocks = [one for said in messages if said["role"] == "user" for one in _blocks(said["content"])]
    last = next(one for one in reversed(blocks) if one["type"] == "tool_result" or _port(one.get("text", "")))
    if last["type"] == "tool_result":
        found = "".join(one["text"] for one in _blocks(last["content"]))
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": f"I looked: {found}."}, "end_turn"
    call = {"type": "tool_use", "id": f"toolu_{n}", "name": TOOL, "input": {}}
    asked = json.dumps({"port": _port(last["text"])})
    return call, {"type": "input_json_delta", "partial_json": asked}, "tool_use"


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _port(text: str) -> str | None:
    return next((port for port in PORTS if f"in {port}?" in text), None)


@contextmanager
def scripted(die_at: int | None) -> Iterator[str]:
    """The address of the model."""
    Script.die_at = die_at
    server = ThreadingHTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


async def chat(hf: holdfast.Holdfast, model: str, scratch: str) -> None:
    """Ask about each port that has no answer yet."""
    store = HoldfastSessionStore(hf)
    known = await store.load(_key())
    look_up = tool("high_tide", "When the tide is high", {"port": str})(high_tide)
    options = ClaudeAgentOptions(
        session_store=store,
        session_store_flush="eager",  # each line at once, not each turn
        resume=SESSION if known else None,
        session_id=None if known else SESSION,
        mcp_servers={"harbour": create_sdk_mcp_server("harbour", tools=[look_up])},
        allowed_tools=[TOOL],
        tools=[],
        setting_sources=[],
        env=_offline(model, scratch),
    )
    async with ClaudeSDKClient(options) as client:
        for port in [one for one in PORTS if f"I looked: high tide in {one} " not in json.dumps(known)]:
            await client.query(f"When is high tide in {port}?")
            async for _ in client.receive_response():
                pass


def _key() -> Any:
    return {"project_key": project_key_for_directory(None), "session_id": SESSION}


def _offline(model: str, scratch: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CONFIG_DIR": scratch,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("store", help="where the transcript is kept, such as sqlite:///chat.db")
    parser.add_argument("--die-at", type=int, help="kill the process at this model call")
    given = parser.parse_args()
    with holdfast.open(given.store) as hf, scripted(given.die_at) as model, tempfile.TemporaryDirectory() as scratch:
        asyncio.run(chat(hf, model, scratch))  # what the SDK keeps on disk is gone each time
        for message in hf.sessions.messages(session_id_of(_key())):
            if message.text.startswith("I looked"):
                print(message.text)


if __name__ == "__main__":
    main()
