# SPDX-License-Identifier: Apache-2.0
"""Files of stores that will not do, with what is said of each, and those of older layouts."""

import dataclasses
import os

from store_rows import MEASURED, row, sql
from tvm.relay.collage.store import CostStore
from tvm.relay.collage.store.row import COLUMNS
from tvm.relay.collage.store.schema import APPLICATION_ID, CREATE, CREATE_DECISION, VERSION


def fill(path, count=200):
    with CostStore(path) as store:
        store.merge([row(candidate=f"{i * 0x9E3779B97F4A7C15 % 2**64:016x}") for i in range(count)])
    assert not path.with_name(path.name + "-wal").exists()


def truncated(path):
    fill(path)
    os.truncate(path, path.stat().st_size // 2)


def damaged(path):
    fill(path)
    with open(path, "r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xa5" * 4096 * 3)


def without_a_column(path):
    fill(path)
    with sql(path) as connection:
        connection.execute("ALTER TABLE cost DROP COLUMN message")


def text(path):
    path.write_text("a letter to a friend, and no database\n" * 100)


def folder(path):
    path.mkdir()


def of_another_program(path):
    with sql(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


def with_another_id(path):
    fill(path)
    with sql(path) as connection:
        connection.execute("PRAGMA application_id = 7")


def of_a_later_version(path):
    fill(path)
    with sql(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")


def of_a_version_that_never_was(path):
    fill(path)
    with sql(path) as connection:
        connection.execute("PRAGMA user_version = -3")


FAULTS = {
    truncated: ("StoreCorruptError", "the file is damaged", "export --salvage"),
    damaged: ("StoreCorruptError", "the file is damaged", "export --salvage"),
    without_a_column: ("StoreCorruptError", "lacks columns", "export --salvage"),
    text: ("StoreForeignError", "this is no SQLite file", "left as it is"),
    folder: ("StoreError", "it cannot be used", "name another file"),
    of_another_program: ("StoreForeignError", "another program's SQLite file", "left as it is"),
    with_another_id: ("StoreForeignError", "another program's SQLite file", "left as it is"),
    of_a_later_version: ("StoreNewerError", f"it has layout {VERSION + 1}", "use that version"),
    of_a_version_that_never_was: ("StoreForeignError", "never one of ours", "left as it is"),
}


# Columns that a layout did not have yet.
NEWER = {
    1: ("allowed_seconds", "median", "load", "unverified"),
    2: ("median", "load", "unverified"),
    3: ("load", "unverified"),
    4: ("unverified",),
    5: (),
    6: (),
}


def make_older(path, version, count=3, messages=()):
    """A store of an older layout, as its docs had it."""
    lines = CREATE.splitlines(keepends=True)
    cost = dataclasses.replace(MEASURED, median=None)
    costs = [dataclasses.replace(cost, message=text) for text in messages] or [cost] * count
    rows = [row(each, candidate=f"{i:016x}") for i, each in enumerate(costs)]
    columns = [name for name in COLUMNS if name not in NEWER[version]]
    with sql(path) as connection:
        connection.execute("".join(s for s in lines if not s.strip().startswith(NEWER[version])))
        if version >= 6:
            connection.execute(CREATE_DECISION)
        connection.executemany(
            f"INSERT INTO cost ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            [[each.to_json()[name] for name in columns] for each in rows],
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
    return rows


def make_version_1(path, count=3):
    return make_older(path, 1, count)
