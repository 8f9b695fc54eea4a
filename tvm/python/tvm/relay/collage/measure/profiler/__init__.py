# SPDX-License-Identifier: Apache-2.0
"""Taking time in a worker: of one library, of its kernels, and of a step by several kernels."""
