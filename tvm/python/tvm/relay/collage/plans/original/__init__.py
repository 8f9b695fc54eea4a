# SPDX-License-Identifier: Apache-2.0
"""A model's original file as the truth: what its own runtime computes, beside what was imported.
Test: plans/original/test_check.py. Docs: docs/accuracy.md"""

from .check import NONE, Agreement, Original, check, exact_outputs

__all__ = ["NONE", "Agreement", "Original", "check", "exact_outputs"]
