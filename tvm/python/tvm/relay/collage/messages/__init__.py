# SPDX-License-Identifier: Apache-2.0
"""Progress of long work, and what is read out of the messages of others."""
