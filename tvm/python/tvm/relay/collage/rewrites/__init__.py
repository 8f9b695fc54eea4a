# SPDX-License-Identifier: Apache-2.0
"""Rules that make Relay modules equal and faster, or simpler; `table` has them all."""

from .quantised import own_dequantized
from .table import RULES, apply, rewrite_forms, scale_quantised_weights

__all__ = ["RULES", "apply", "own_dequantized", "rewrite_forms", "scale_quantised_weights"]
