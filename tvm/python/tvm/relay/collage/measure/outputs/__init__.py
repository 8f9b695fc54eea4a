# SPDX-License-Identifier: Apache-2.0
"""Judging of outputs: a reference for each operator, and how far others may be from it."""
