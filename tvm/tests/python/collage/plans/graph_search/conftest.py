# SPDX-License-Identifier: Apache-2.0
"""Gives the tests of the guard its fake of a comparison."""

from guard_fakes import fake_compare  # noqa: F401
