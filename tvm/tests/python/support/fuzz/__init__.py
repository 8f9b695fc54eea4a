# SPDX-License-Identifier: Apache-2.0
"""A differential fuzz of the real backends. Docs: docs/testing.md. Test: backends/test_fuzz.py."""
