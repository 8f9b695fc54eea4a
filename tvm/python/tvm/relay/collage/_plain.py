# SPDX-License-Identifier: Apache-2.0
"""Values that C++ hands over as Python's own. Test: test_estimators.py."""

import tvm


def plain(value):
    """TVM containers and boxes as dict, list, str, int, float, bool and None."""
    if isinstance(value, (tvm.ir.container.Map, dict)):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tvm.ir.container.Array, list)):
        return [plain(item) for item in value]
    if isinstance(value, (str, tvm.runtime.String)):
        return str(value)
    return getattr(value, "value", value)
