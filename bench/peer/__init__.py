# SPDX-License-Identifier: Apache-2.0
"""Parts of bench/peers.py: contestants, building ours and stock TVM, the report.

Test: bench/test_peers.py.
"""
