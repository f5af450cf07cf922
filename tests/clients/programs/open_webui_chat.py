"""Open WebUI without a browser: its server in a folder of its own, its first user, and a chat of three turns.

It is run with the Python of Open WebUI, in an empty folder; its arguments are the command that starts the server. It
prints the chat as Open WebUI keeps it, as JSON.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from uuid import uuid4

from told import GPT, QUESTIONS, SYSTEM

TASKS = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
"""What its page asks for; titles and tags with the first message alone."""

SETTING = {"role": "system", "content": os.environ.get("TOLD_PREFIX", "") + SYSTEM}
"""The system prompt of the user's settings, which the page sends with each message. Open WebUI fills its variables."""

SECONDS = 240
"""The server may start, and answer, for so long."""


def call(path, body=None, key=""):
    """The JSON that the server answers."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(ADDRESS + path, data, headers), timeout=60) as answer:
        return json.load(answer)


def until(found, what):
    """What this finds as soon as it finds something."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            if value := found():
                return value
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.3)
    raise TimeoutError(what)


def ended(chat, id):
    """The chat, when this answer has ended and the model has been asked for all that goes with it."""
    kept = call(f"/api/v1/chats/{chat}", key=KEY)["chat"]
    answer = kept["history"]["messages"][id]
    return kept if answer.get("done") and answer.get("followUps") else None


def sent(chat, messages, before, question):
    """Send a message as the page does. Returns the chat and the id of its answer."""
    asked, answer = str(uuid4()), str(uuid4())
    message = {"id": asked, "parentId": before, "role": "user", "content": question, "timestamp": int(time.time())}
    body = {
        "model": GPT,
        "stream": True,
        "messages": [SETTING, *messages, {"role": "user", "content": question}],
        "parent_id": before,
        "message_ids": [{"model_id": GPT, "message_id": answer}],
        "user_message": message | {"models": [GPT]},
        "session_id": "a page",
        "variables": {"{{CURRENT_DATETIME}}": f"2026-11-27 09:{len(messages):02}:00"},
        "background_tasks": TASKS if before is None else {"follow_up_generation": True},
    }
    chat = call("/api/chat/completions", body | ({"chat_id": chat} if chat else {}), KEY)["chat_id"]
    return until(lambda: ended(chat, answer), "an answer"), chat, answer


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]
ADDRESS = f"http://127.0.0.1:{PORT}"
with Path("open-webui.log").open("w") as log:
    program = str(Path(sys.executable).with_name(sys.argv[1]))
    where = ["--host", "127.0.0.1", "--port", str(PORT)]
    server = subprocess.Popen([program, *sys.argv[2:], *where], stdout=log, stderr=log)
try:
    until(lambda: call("/health"), "the server")
    ann = {"name": "Ann", "email": "ann@example.org", "password": "a long password"}
    KEY = call("/api/v1/auths/signup", ann)["token"]
    call("/api/models", key=KEY)
    chat, before, messages = None, None, []
    for question in QUESTIONS:
        kept, chat, before = sent(chat, messages, before, question)
        said = kept["history"]["messages"][before]["content"]
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": said}]
    until(lambda: call(f"/api/v1/chats/{chat}", key=KEY)["title"] not in ("", "New Chat"), "a title")
    tags = [tag["name"] for tag in call(f"/api/v1/chats/{chat}/tags", key=KEY)]
    title = call(f"/api/v1/chats/{chat}", key=KEY)["title"]
    answers = [message["content"] for message in messages[1::2]]
    followed = [one["followUps"] for one in kept["history"]["messages"].values() if one["role"] == "assistant"]
    print(json.dumps({"title": title, "tags": tags, "answers": answers, "follow_ups": followed}))
except BaseException:
    print(Path("open-webui.log").read_text()[-3000:], file=sys.stderr)
    raise
finally:
    server.terminate()
    server.wait(30)
