# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages, made of records: bench/write_pages.py writes them. Test:
bench/test_write_pages.py and the test of each benchmark."""
