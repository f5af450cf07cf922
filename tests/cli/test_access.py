"""`lamella users | keys | groups | kb`: accounts turned on and used in a data folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lamella.cli.groups
import lamella.cli.kb
import lamella.cli.keys
import lamella.cli.users  # noqa: F401 (they register the commands)
from lamella.app.app import LOCAL_OWNER, open_app
from lamella.cli.api import announced
from lamella.cli.failures import exit_code_of
from lamella.cli.main import cli
from lamella.core.access import GrantLevel, Role, User
from lamella.core.errors import AuthenticationFailed, InvalidRequest, LamellaError, NotFound, PermissionDenied
from lamella.core.records import Caller
from lamella.knowledge.restricted.searching import RestrictedBase, RestrictedQuestion
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.authentication import Authentication
from lamella.server.testing import served, serving
from lamella.server.web import create_web
from lamella.settings import read_settings
from lamella.storage.store import Store
from leaking.restricted_base import add, reply, second_model

from .test_inspect import offline


class Terminal:
    """A data folder, and who asks."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def run(self, *arguments: str, key: str | None = None) -> Result:
        """What a command did."""
        with pytest.MonkeyPatch.context() as patched:
            offline(patched)
            if key is not None:
                patched.setenv("LAMELLA_KEY", key)
            return CliRunner().invoke(cli, [*arguments, "--data", str(self._data)])

    def ask(self, *arguments: str, key: str | None = None) -> Any:
        """The JSON that a command printed."""
        done = self.run(*arguments, "--json", key=key)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    def refusal(self, *arguments: str, key: str | None = None) -> LamellaError:
        """How a command was refused."""
        error = self.run(*arguments, key=key).exception
        assert isinstance(error, LamellaError)
        assert exit_code_of(error) == 2
        return error


def test_accounts_groups_keys_and_grants_in_the_terminal(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    assert isinstance(terminal.refusal("users", "add", "Bob"), PermissionDenied)
    ann = terminal.ask("users", "setup", "Ann")["key"]["secret"]
    bob = terminal.ask("users", "add", "Bob", key=ann)["key"]["secret"]
    assert isinstance(terminal.refusal("users", "add", "Carl", key=bob), PermissionDenied)
    assert isinstance(terminal.refusal("users", "list", key=bob[:-1]), AuthenticationFailed)

    terminal.ask("groups", "create", "Staff", key=ann)
    added = terminal.run("groups", "add", "staff", "bob", key=ann)
    assert added.stdout.endswith(" · Staff · Bob\n")

    terminal.ask("kb", "create", "Prices", key=ann)
    assert terminal.ask("kb", "list", key=bob)["data"] == []
    granted = terminal.run("kb", "grant", "prices", "Staff", "restricted", key=ann).stdout.splitlines()
    assert granted[0] == "Staff: restricted"
    assert granted[1].endswith("until the server has a second model (LAMELLA_RESTRICTED_MODEL).")
    assert [base["level"] for base in terminal.ask("kb", "list", key=bob)["data"]] == ["restricted"]
    assert isinstance(terminal.refusal("kb", "grant", "Prices", "Bob", "full", key=bob), PermissionDenied)
    assert isinstance(terminal.refusal("kb", "preview", "Prices", "What?", key=bob), PermissionDenied)
    shown = terminal.run("kb", "preview", "Prices", "What", "of", "it?", key=ann).stdout
    assert shown == "refuse · no_documents\n0 passages of: no documents\n"
    questions = tmp_path / "questions.txt"
    questions.write_text("What of it?\n\nWhat else?\n", "utf-8")
    assert terminal.run("kb", "preview", "Prices", "-f", str(questions), key=ann).stdout.splitlines() == [
        "What of it? · refuse, no_documents",
        "What else? · refuse, no_documents",
        "2 of 2 questions refused, 0 of 0 sentences cut",
    ]
    assert isinstance(terminal.refusal("kb", "preview", "Prices", key=ann), InvalidRequest)
    assert terminal.run("kb", "ready", "Prices", key=ann).stdout.splitlines() == [
        "second model: not set (LAMELLA_RESTRICTED_MODEL)",
        "word lists: installed",
        "0 documents",
        "0 names found: none",
    ]
    assert terminal.run("kb", "uses", "Prices", key=ann).stdout == "Nobody has asked.\n"
    assert terminal.run("kb", "uses", "Prices", "--readers", key=ann).stdout == "Nobody has asked.\n"
    assert terminal.run("kb", "terms", "Prices", key=ann).stdout == "No names were found.\n"
    terminal.run("kb", "terms", "Prices", "--confirm", "Blue Door", "--allow", "Falcon", key=ann)
    levelled = terminal.run("kb", "level", "Prices", "form", "--field", "Notice: a month | longer", key=ann)
    assert levelled.stdout == "Prices: form\n"
    changed = terminal.run("kb", "terms", "Prices", "--drop", "Blue Door", key=ann)
    assert changed.stdout == "allowed · Falcon\n"
    terminal.run("kb", "grant", "Prices", "Bob", "none", key=ann)
    assert terminal.ask("kb", "list", key=bob)["data"] == []
    assert isinstance(terminal.refusal("kb", "grants", "Prices", key=bob), NotFound)
    assert terminal.run("kb", "grant", "Prices", "Bob", "remove", key=ann).stdout == "Bob: no grant\n"
    assert terminal.run("kb", "grants", "Prices", key=ann).stdout == "group Staff · restricted\n"
    changes = terminal.run("kb", "grants", "Prices", "--changes", key=ann).stdout.splitlines()
    assert [line.split(" · ", 1)[1] for line in changes] == [
        "group Staff · no grant → restricted · by user_local",
        "user Bob · no grant → none · by user_local",
        "user Bob · none → no grant · by user_local",
    ]

    reader = terminal.ask("keys", "create", "reader", "--scope", "read", "--days", "7", key=bob)
    assert "write" in terminal.refusal("kb", "create", "Mine", key=reader["secret"]).message
    listed = terminal.run("keys", "list", key=bob).stdout
    assert " · first key · " in listed
    assert reader["secret"] not in listed
    careful = terminal.run("keys", "set", reader["id"], "--storage", "hashes", key=bob).stdout
    assert " · stores hashes" in careful
    assert "stores" not in terminal.run("keys", "set", reader["id"], "--storage", "default", key=bob).stdout
    assert " · revoked " in terminal.run("keys", "revoke", reader["id"], key=bob).stdout
    assert isinstance(terminal.refusal("kb", "list", key=reader["secret"]), AuthenticationFailed)

    terminal.ask("users", "set", "Bob", "--disable", key=ann)
    assert isinstance(terminal.refusal("keys", "list", key=bob), AuthenticationFailed)
    # Whoever holds the folder needs no key: the way back in.
    lost = terminal.ask("keys", "create", "again")
    listed = terminal.ask("users", "list", key=lost["secret"])["data"]
    assert {user["name"]: user["role"] for user in listed} == {"Ann": "admin", "Bob": "member"}


async def _set_up_at_a_server(data: Path) -> None:
    """Against a server that others reach: nobody gets in, and the first-run token makes the first admin."""
    terminal = Terminal(data)
    async with open_app(read_settings(data=data), models=ScriptedModels(ScriptedModel())) as app:
        entrance = Authentication(app.accounts, is_local=False, first_run_token="printed-once")
        async with serving(create_web(app, entrance)) as url, announced(data, url):
            refused = await asyncio.to_thread(terminal.refusal, "users", "list")
            assert "first-run token" in str(refused.hint)
            for wrong in ([], ["--token", "guessed"]):
                error = await asyncio.to_thread(terminal.refusal, "users", "setup", "Eve", *wrong)
                assert error.message in (
                    "This is not the first-run token.",
                    "Setting accounts up takes the first-run token.",
                )
            made = await asyncio.to_thread(terminal.ask, "users", "setup", "Ann", "--token", "printed-once")
            key = made["key"]["secret"]
            listed = await asyncio.to_thread(terminal.ask, "users", "list", key=key)
            assert [user["name"] for user in listed["data"]] == ["Ann"]
            assert isinstance(await asyncio.to_thread(terminal.refusal, "users", "list"), AuthenticationFailed)


def test_the_first_run_token_sets_a_server_up_from_the_terminal(tmp_path: Path) -> None:
    asyncio.run(_set_up_at_a_server(tmp_path))


def test_an_owner_reads_in_the_terminal_what_went_out_of_a_document(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)

    async def somebody_asks() -> None:
        second = second_model()
        settings = read_settings(data=tmp_path, restricted_model="second")
        async with served(settings, models=ScriptedModels(ScriptedModel(), second)) as (app, client):
            base = (await client.post("/knowledge-bases", {"name": "Lease"}))["id"]
            await add(app, base, "The geese stay out of the yard in winter, and tenants pay.", "rules.md", LOCAL_OWNER)
            assert isinstance(app.store, Store)
            await app.store.directory.add_user(User("user_bob", "Bob", Role.MEMBER, app.clock.now()))
            await app.bases.grant(LOCAL_OWNER, base, "user_bob", GrantLevel.RESTRICTED)
            second.then(saying(reply("There are geese in winter.")))
            asked = RestrictedQuestion(Caller("user_bob"), "What of geese?", 8)
            await app.knowledge.restricted.answers_of(asked, [RestrictedBase(base, LOCAL_OWNER.user_id, "Lease")])

    asyncio.run(somebody_asks())
    passage, reader, sentence = terminal.run("kb", "uses", "lease", "--document", "rules.md").stdout.splitlines()
    assert passage.endswith(":0 · The geese stay out of the yard in winter, and tenants pay.")
    assert reader == "  Bob · 2 of 6 words, 33% of one sentence"
    assert sentence == "    There are geese in winter."
    assert isinstance(terminal.refusal("kb", "uses", "lease", "--document", "other.md"), NotFound)
