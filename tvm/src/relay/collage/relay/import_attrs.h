// SPDX-License-Identifier: Apache-2.0
// Attributes of TVM's calls, operators and functions -> AttrValue; every attribute has one.
// Precondition: libtvm.so is loaded. Test: relay/test_import_attrs.py.
#pragma once

#include <string>

#include "../graph/attr_value.h"
#include "fields.h"

namespace tvm::collage {

// Numbers, texts and lists of them as data, anything else as its structural hash. Objects that
// cannot be hashed (a packed function) differ from all but themselves.
AttrValue ImportAttr(const ObjectRef& value);

// Numbers without a type, in lists too, get the one that TVM gives Python's.
AttrValue WithNumberTypes(AttrValue value);

// All fields of an attributes object; of a dictionary, its entries. Null has none.
Attrs ImportAttrs(const ObjectRef& attrs);

// What is registered for an operator under that name; monostate when nothing is.
AttrValue ImportOpAttr(const ObjectRef& op, const std::string& name);

}  // namespace tvm::collage
