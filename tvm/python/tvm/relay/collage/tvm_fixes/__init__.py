# SPDX-License-Identifier: Apache-2.0
"""Defects of TVM 0.19, and what stands in for them; `table` has all of it.

Imported in every process: what replaces a function is imported by who applies it.
"""
