# SPDX-License-Identifier: Apache-2.0
"""What a whole process shares: our libraries, late imports, interrupts, logs, patches."""
