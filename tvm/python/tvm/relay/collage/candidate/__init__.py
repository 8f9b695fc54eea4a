# SPDX-License-Identifier: Apache-2.0
"""The subject of a measurement: a candidate as text, its weights, its inputs and what it reads."""
