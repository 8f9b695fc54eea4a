# SPDX-License-Identifier: Apache-2.0
"""The trials of bench/zoo.py: what a process of its own measures of one net. Test:
bench/test_zoo.py, bench/test_mixes.py."""
