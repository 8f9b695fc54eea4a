# SPDX-License-Identifier: Apache-2.0
"""Expendable processes that do what may hang or crash, and what they answer.

A worker starts by importing this package, so nothing is imported here.
"""
