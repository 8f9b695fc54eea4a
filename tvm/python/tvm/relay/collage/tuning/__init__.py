# SPDX-License-Identifier: Apache-2.0
"""Tuning records of AutoTVM, Ansor and MetaSchedule (see docs/tuning.md)."""

from .logs import load_records, read_log
from .record import TRANSFERRED, CannotTravel, Record, TuningLogError
from .records import TuningRecords, built_as, records_in_force

__all__ = [
    "TRANSFERRED",
    "CannotTravel",
    "Record",
    "TuningLogError",
    "TuningRecords",
    "built_as",
    "load_records",
    "read_log",
    "records_in_force",
]
