# SPDX-License-Identifier: Apache-2.0
"""What is measured and what it costs: candidates as text, how a worker builds one and what its
outputs must be, costs as data. Nothing here takes time."""
