# SPDX-License-Identifier: Apache-2.0
"""Relay expressions: what they are made of, and made again."""
