# SPDX-License-Identifier: Apache-2.0
"""Things that a whole process shares: our libraries, late imports, interrupts, logs, patches."""
