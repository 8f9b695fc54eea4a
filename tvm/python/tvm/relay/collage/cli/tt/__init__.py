# SPDX-License-Identifier: Apache-2.0
"""`collage tt`: Transfer-Tuning, from logs of Ansor to schedules for another model.

Docs: docs/transfer.md. Test: cli/test_tt.py.
"""
