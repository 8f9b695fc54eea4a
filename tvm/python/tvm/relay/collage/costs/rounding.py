# SPDX-License-Identifier: Apache-2.0
"""Bounds of rounding errors: a table, by the coarsest type inside.

Assumption: rounding errors are independent, so they grow with the root of a sum's length; a table
of three steps is enough, because wrong results are wrong by far more than rounding. A file of its
own, since backends name its types and measuring compares by it. Test:
measure/outputs/test_reference.py.
"""

# Coarsest type inside -> tolerance when all sums together have up to SHORT terms, up to LONG, more.
# An element may be off by the tolerance times (its size + the root mean square of its tensor).
# "8 bit" stands for floats that were rounded to 8 bits on the way: one step is 1/128 of the range.
SHORT, LONG = 1024, 65536
RELATIVE = {
    "float64": (1e-10, 1e-9, 1e-8),
    "float32": (1e-4, 3e-4, 1e-3),
    "float16": (1e-2, 3e-2, 1e-1),
    "bfloat16": (5e-2, 1e-1, 2e-1),
    "8 bit": (3e-2, 1e-1, 3e-1),
}
# The same of a whole model's outputs, as a share of the largest value: its errors add up, and one
# step of 8 bits that falls the other way moves all that follows.
OUTPUT = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2, "8 bit": 1e-1}
# What is off by more than that is not off by the rounding of 32 bits, whoever computed it.
ROUNDING = 1e-2
