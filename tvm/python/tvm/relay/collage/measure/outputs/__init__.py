# SPDX-License-Identifier: Apache-2.0
"""What outputs must be: a reference for each operator, and how far others may be from it."""
