# SPDX-License-Identifier: Apache-2.0
"""This machine: its CPU, threads and versions, as keys of costs and placements name them."""
