# SPDX-License-Identifier: Apache-2.0
"""What is measured: a candidate as text, its weights, its inputs and what it reads."""
