# SPDX-License-Identifier: Apache-2.0
"""Files: texts written at once or not at all, records of JSON, what a file seems to be."""
