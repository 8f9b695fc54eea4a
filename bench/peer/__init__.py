# SPDX-License-Identifier: Apache-2.0
"""Parts of bench/peers.py: contestants, building ours and stock TVM, the report.

Test: tvm/tests/python/collage/test_bench_peers.py.
"""
