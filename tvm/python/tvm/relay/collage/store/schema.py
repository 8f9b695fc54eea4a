# SPDX-License-Identifier: Apache-2.0
"""The store's tables, their versions, and the way from each to the next.

`check_version` is the only place that writes the schema. Test: store/test_faults.py.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from .errors import StoreForeignError, StoreNewerError, StoreReadOnlyError
from .row import message_of, was_unverified

# In the file's header: "CLGe", so that other programs' SQLite files are told apart.
APPLICATION_ID = 0x434C4765
VERSION = 7

# Key columns first; they stand in the order of key.CostKey. Times are in seconds.
CREATE = """
CREATE TABLE cost (
  candidate       TEXT NOT NULL,  -- structural hash of the weight-free candidate, 16 hex digits
  backend         TEXT NOT NULL,  -- tvm, transition, plan or an external backend's name
  backend_version TEXT NOT NULL,  -- Backend.version(); empty for TVM itself
  target          TEXT NOT NULL,  -- host target that it was built for
  device          TEXT NOT NULL,  -- kind of device that ran it: cpu
  cpu             TEXT NOT NULL,  -- model, family and stepping of the processor
  threads         TEXT NOT NULL,  -- threads of TVM, what is unusual about them and CPUs
  options         TEXT NOT NULL,  -- JSON: opt_level and what of the PassContext changes a build
  tvm             TEXT NOT NULL,  -- TVM's version, commit and LLVM, and TopHub where it is used
  measuring       TEXT NOT NULL,  -- this tool's way of measuring, and settings that change results
  status          TEXT NOT NULL,  -- of measure.STATUSES
  seconds         REAL,           -- of one run, as the search counts it; null for a failure
  low             REAL,           -- lower end of the median's 95 % interval
  high            REAL,           -- upper end of it
  rounds          INTEGER NOT NULL,  -- samples
  border_seconds  REAL NOT NULL,     -- layout transforms at the borders, not in seconds
  message         TEXT NOT NULL,     -- why it failed, or a remark
  median          REAL,              -- where seconds is not it but the upper quartile: noisy
  load            REAL NOT NULL DEFAULT 0,  -- the share of the CPUs that others took, if much
  unverified      INTEGER NOT NULL DEFAULT 0,  -- 1: outputs had nothing to be compared with
  measured_at     TEXT NOT NULL,     -- UTC, 2026-01-31T12:00:00.000000+00:00
  label           TEXT NOT NULL,     -- for people: backend and operators; no part of the key
  allowed_seconds REAL NOT NULL DEFAULT 0,  -- timed seconds allowed; a timeout's limit
  PRIMARY KEY (candidate, backend, backend_version, target, device, cpu, threads, options, tvm,
               measuring)
) WITHOUT ROWID
"""

# The columns of the key stand in the order of decisions.DecisionKey.
CREATE_DECISION = """
CREATE TABLE decision (
  model      TEXT NOT NULL,  -- hash of the prepared module, without the values of its weights
  weights    TEXT NOT NULL,  -- hash of these values
  backends   TEXT NOT NULL,  -- JSON: the version of each external target's backend
  target     TEXT NOT NULL,  -- the host target
  cpu        TEXT NOT NULL,  -- as of a cost
  threads    TEXT NOT NULL,  -- as of a cost
  options    TEXT NOT NULL,  -- JSON: options that decide, and what changes how plans are built
  given      TEXT NOT NULL,  -- JSON: hashes of tuning records and of the model's file, who ran it
  tvm        TEXT NOT NULL,  -- as of a cost
  collage    TEXT NOT NULL,  -- versions of this tool, of how it measures and of how it decides
  report     BLOB NOT NULL,  -- of that compile: JSON, packed by zlib
  decided_at TEXT NOT NULL,  -- as a cost's measured_at
  label      TEXT NOT NULL,  -- for people: the report's summary; no part of the key
  PRIMARY KEY (model, weights, backends, target, cpu, threads, options, given, tvm, collage)
)
"""

# The columns of the key stand in the order of foreseen.ForeseenKey and its Environment.
CREATE_FORESEEN = """
CREATE TABLE foreseen (
  backend         TEXT NOT NULL,  -- as of a cost, and so the others of the key
  backend_version TEXT NOT NULL,
  target          TEXT NOT NULL,
  device          TEXT NOT NULL,
  cpu             TEXT NOT NULL,
  threads         TEXT NOT NULL,
  tvm             TEXT NOT NULL,
  measuring       TEXT NOT NULL,  -- as of a candidate by itself
  profiled        REAL NOT NULL,  -- seconds of a candidate's operators in its backend's profile
  seconds         REAL NOT NULL,  -- its cost
  PRIMARY KEY (backend, backend_version, target, device, cpu, threads, tvm, measuring, profiled,
               seconds)
) WITHOUT ROWID
"""
_TABLES = (CREATE, CREATE_DECISION, CREATE_FORESEEN)

# Version -> what makes the next one of it. Version 1 did not know how long it had measured: its
# rows count as measured in no time, so they answer only where the interval is narrow. Up to version
# 2 seconds was always the median; up to version 3 nobody knew whether the machine was busy; up to
# version 4 the message alone said that a cost was noisy or unverified (row.message_of). Up to
# version 5 no decision was kept, and up to version 6 nothing of profiles.
MIGRATIONS = {
    1: ("ALTER TABLE cost ADD COLUMN allowed_seconds REAL NOT NULL DEFAULT 0",),
    2: ("ALTER TABLE cost ADD COLUMN median REAL",),
    3: ("ALTER TABLE cost ADD COLUMN load REAL NOT NULL DEFAULT 0",),
    4: (
        "ALTER TABLE cost ADD COLUMN unverified INTEGER NOT NULL DEFAULT 0",
        "UPDATE cost SET message = message_of(status, message), "
        "unverified = was_unverified(status, message) WHERE status = 'measured' AND message <> ''",
    ),
    5: (CREATE_DECISION,),
    6: (CREATE_FORESEEN,),
}


def check_version(connection: sqlite3.Connection, path: os.PathLike[str], writable: bool) -> None:
    """Make the tables in an empty file, migrate an older one, refuse what is not ours.

    Raises StoreForeignError, StoreNewerError, StoreReadOnlyError (an older file that cannot be
    migrated) and SQLite's own errors.
    """
    # Another process may make the table between two readings.
    with transaction(connection, "BEGIN"):
        is_current = _is_current(connection, path)
    if is_current:
        return
    if not writable:
        raise StoreReadOnlyError(path, "it has an older layout, or none yet, and is read-only")
    for function in (message_of, was_unverified):
        connection.create_function(function.__name__, 2, function)
    with transaction(connection):
        # Another process may have been faster.
        while not _is_current(connection, path):
            version = _pragma(connection, "user_version")
            for statement in MIGRATIONS[version] if version else _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {version + 1 if version else VERSION}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Have statements in the block see one state of the file, and count all or, on errors, none."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_current(connection: sqlite3.Connection, path: os.PathLike[str]) -> bool:
    """Return whether the file has this version; False for an empty or older one."""
    owner, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if owner == version == tables == 0:
        return False
    if owner != APPLICATION_ID:
        raise StoreForeignError(path, "another program's SQLite file")
    if version > VERSION:
        raise StoreNewerError(path, f"it has layout {version}, and this version knows {VERSION}")
    if version != VERSION and version not in MIGRATIONS:
        raise StoreForeignError(path, f"its layout {version} was never one of ours")
    return version == VERSION


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
