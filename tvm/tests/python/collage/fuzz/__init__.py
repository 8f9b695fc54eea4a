# SPDX-License-Identifier: Apache-2.0
"""A differential fuzz of the real backends. Docs: docs/fuzz.md. Test: test_fuzz.py."""
