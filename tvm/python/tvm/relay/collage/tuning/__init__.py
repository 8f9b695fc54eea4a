# SPDX-License-Identifier: Apache-2.0
"""Tuning of TVM's kernels: records of AutoTVM, Ansor and MetaSchedule, and searches for more.

Docs: docs/tuning.md; transfer/: docs/transfer.md.
"""

from .log import load_records, read_log
from .records import TUNERS, TuningRecords, built_as, records_in_force
from .tuner import TRANSFERRED, CannotTravel, Record, TuningLogError

__all__ = [
    "TRANSFERRED",
    "TUNERS",
    "CannotTravel",
    "Record",
    "TuningLogError",
    "TuningRecords",
    "built_as",
    "load_records",
    "read_log",
    "records_in_force",
]
