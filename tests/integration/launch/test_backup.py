"""A backup brings everything back, into an empty store only, and whole or not at all."""

from __future__ import annotations

import asyncio
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from rejoinder.contract.errors import BadInputError
from rejoinder.launch.backup import BackupError, StoreInUseError, backup, contents, restore
from rejoinder.launch.embedded import DATABASE, EmbeddedServer
from rejoinder.store.database import Database
from rejoinder.store.migrate import available, migrate, pending

_FILL = """
INSERT INTO rejoinder.run (id, tool, arguments, door, state, identity)
    SELECT gen_random_uuid(), 'demo', jsonb_build_object('text', repeat('ä☃', n)), 'tool-runs', 'parked', 'owner'
      FROM generate_series(1, 3) AS n;
INSERT INTO rejoinder.question (id, run_id, ordinal, group_id, mode, answer_format, question, tool, asked_by, created_at, timeout_at)
    SELECT gen_random_uuid(), r.id, 1, 'g', 'async', 'text', 'What now?', 'demo', 'owner', clock_timestamp(), clock_timestamp() + interval '1 day'
      FROM rejoinder.run r;
INSERT INTO rejoinder.media (id, question_id, content_type, content)
    SELECT 'image of ' || q.id, q.id, 'image/png', '\x89504e47000dff' FROM rejoinder.question q;
INSERT INTO rejoinder.flood (bucket, hits, ends_at) VALUES ('somebody', 7, clock_timestamp());
"""


@pytest.fixture
def server(shared: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """The module's server with an empty, migrated database."""
    empty(shared)
    asyncio.run(migrate(Database(shared.url)))
    yield shared
    left = shared.sql("SELECT string_agg(datname, ' ') FROM pg_database WHERE datname LIKE 'rejoinder_%'")
    assert left == "", "a restore left its scratch databases behind"


def empty(server: EmbeddedServer) -> None:
    server.sql(f"DROP DATABASE {DATABASE} WITH (FORCE)", database="postgres")
    server.sql(f"CREATE DATABASE {DATABASE}", database="postgres")


def everything(server: EmbeddedServer) -> str:
    tables = ("run", "question", "media")
    return "".join(
        server.sql(f"SELECT json_agg(t ORDER BY t.id) FROM rejoinder.{table} t") for table in tables
    )


def test_everything_comes_back_into_a_new_store(server: EmbeddedServer, tmp_path: Path) -> None:
    server.sql(_FILL)
    before = everything(server)
    made = backup(server, tmp_path / "kept.backup")
    assert made.file == tmp_path / "kept.backup"
    assert made.size == made.file.stat().st_size > 1000
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.backup"]

    empty(server)
    assert contents(server) is None
    restored = restore(server, made.file)
    assert (restored.questions, restored.open_questions, restored.runs, restored.parked_runs) == (3, 3, 3, 3)
    assert restored.migration == max(number for number, _, _ in available())
    assert everything(server) == before
    assert contents(server) == restored
    assert server.sql("SELECT count(*) FROM rejoinder.flood") == "0"
    assert asyncio.run(pending(Database(server.url))) == []


def test_a_store_that_is_not_empty_is_replaced_only_by_force(server: EmbeddedServer, tmp_path: Path) -> None:
    server.sql(_FILL)
    made = backup(server, tmp_path / "kept.backup")
    server.sql("DELETE FROM rejoinder.question")
    before = everything(server)
    with pytest.raises(StoreInUseError, match="0 questions and 3 runs"):
        restore(server, made.file)
    assert everything(server) == before
    assert restore(server, made.file, force=True).questions == 3
    assert len(everything(server)) > len(before)


def test_a_store_with_only_the_first_starts_key_counts_as_empty(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    made = backup(server, tmp_path / "kept.backup")
    _key(server, "owner")
    restore(server, made.file)
    _key(server, "owner")
    _key(server, "colleague")
    with pytest.raises(StoreInUseError):
        restore(server, made.file)


def _key(server: EmbeddedServer, name: str) -> None:
    server.sql(
        "INSERT INTO rejoinder.api_key (id, name, identity, grants, digest, created_by) "
        f"VALUES ('{uuid.uuid4()}', '{name}', '{name}', ARRAY['admin'], sha256('{name}'), 'test')"
    )


def test_sessions_and_sign_in_links_do_not_come_back(server: EmbeddedServer, tmp_path: Path) -> None:
    server.sql(
        "INSERT INTO rejoinder.browser_session (digest, expires_at) VALUES ('a', clock_timestamp() + interval '1 day');"
        "INSERT INTO rejoinder.sign_in (digest, expires_at) VALUES ('b', clock_timestamp() + interval '1 day')"
    )
    made = backup(server, tmp_path / "kept.backup")
    restore(server, made.file)
    assert server.sql("SELECT count(*) FROM rejoinder.browser_session WHERE ended_at IS NULL") == "0"
    assert server.sql("SELECT count(*) FROM rejoinder.sign_in WHERE used_at IS NULL") == "0"


async def test_a_store_that_somebody_uses_is_backed_up_but_not_replaced(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(server.url)
    try:
        made = await asyncio.to_thread(backup, server, tmp_path / "kept.backup")
        with pytest.raises(StoreInUseError, match="1 connection to this store is open"):
            await asyncio.to_thread(restore, server, made.file, force=True)
    finally:
        await connection.close()


def test_a_backup_never_replaces_a_file_unasked(server: EmbeddedServer, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    with pytest.raises(BadInputError, match="exists already") as caught:
        backup(server, there)
    assert caught.value.field == "file"
    assert there.read_text() == "precious"
    assert backup(server, there, overwrite=True).size > 1000
    for wrong in (tmp_path, tmp_path / "no" / "such" / "folder"):
        with pytest.raises(BadInputError):
            backup(server, wrong)


def test_a_backup_that_fails_leaves_no_file(shared: EmbeddedServer, tmp_path: Path) -> None:
    empty(shared)
    # The dump waits for no lock: it fails at once while somebody has dropped what it must read.
    shared.sql("CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    shared.sql("UPDATE pg_proc SET prolang = 0 WHERE proname = 'f'")
    with pytest.raises(BackupError, match="pg_dump failed"):
        backup(shared, tmp_path / "kept.backup")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "folder", "empty", "text", "cut", "foreign"])
def test_what_is_no_backup_changes_nothing(server: EmbeddedServer, tmp_path: Path, damage: str) -> None:
    server.sql(_FILL)
    before = everything(server)
    file = tmp_path / "kept.backup"
    if damage == "folder":
        file.mkdir()
    elif damage in ("empty", "text"):
        file.write_text("" if damage == "empty" else "CREATE TABLE x ();\n" * 100)
    elif damage == "cut":
        backup(server, file)
        file.write_bytes(file.read_bytes()[:-2000])
    elif damage == "foreign":
        server.sql("CREATE DATABASE foreigner", database="postgres")
        theirs = EmbeddedServer(server.data)
        theirs.start()
        theirs._url = server.url_of("foreigner")
        backup(theirs, file)
        theirs.stop()
        server.sql("DROP DATABASE foreigner", database="postgres")
    with pytest.raises((BadInputError, BackupError)):
        restore(server, file, force=True)
    assert everything(server) == before


def test_a_backup_of_a_newer_version_is_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    server.sql("INSERT INTO rejoinder.migration (number, name) VALUES (9999, '9999_future.sql')")
    made = backup(server, tmp_path / "kept.backup")
    empty(server)
    with pytest.raises(BadInputError, match="newer version"):
        restore(server, made.file)
    assert contents(server) is None
