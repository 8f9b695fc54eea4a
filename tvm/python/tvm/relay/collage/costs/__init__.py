# SPDX-License-Identifier: Apache-2.0
"""Costs as data: of candidates and kernels, failed ones, and the statistics of samples."""
