# SPDX-License-Identifier: Apache-2.0
"""The parts of bench/ablation.py: plans of growing lists of backends, the judge, the page. Test:
bench/test_ablation.py."""
