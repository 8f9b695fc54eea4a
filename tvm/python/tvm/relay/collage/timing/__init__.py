# SPDX-License-Identifier: Apache-2.0
"""Taking time in a worker: of one library, and of several side by side."""
