# SPDX-License-Identifier: Apache-2.0
"""The parts that benchmarks share: processes of their own, sides beside each other, records, tables
and arguments. Each file names its test."""
