# SPDX-License-Identifier: Apache-2.0
"""What is wrong with TVM 0.19, and what stands in for it; `table` has all of it.

Imported in every process: what replaces a function is imported by who applies it.
"""
