# SPDX-License-Identifier: Apache-2.0
"""This machine: its CPU, cores, memory, load and versions; who else uses it."""
