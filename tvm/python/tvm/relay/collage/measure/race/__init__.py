# SPDX-License-Identifier: Apache-2.0
"""Contestants beside each other: right outputs first, then times in rounds of all."""
