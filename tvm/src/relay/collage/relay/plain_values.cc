// SPDX-License-Identifier: Apache-2.0
// Relay values in one piece for Python, where each field, extent or element read by itself takes
// microseconds. Precondition: types are inferred. Test: tvm/tests/python/collage/test_import.py.
#include "import_relay.h"

namespace tvm::collage {
namespace {

/*! \brief "1 64 56 56"; "?" for what is not known at compile time. */
std::string Joined(const Array<ObjectRef>& numbers) {
  std::string text;
  for (const ObjectRef& number : numbers) {
    const std::string one =
        IsA(number, "IntImm") ? std::to_string(Fields(number).Int("value")) : "?";
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

/*! \brief "float32 1 64 56 56"; empty when it is no tensor's type. */
String StaticType(const ObjectRef& type) {
  if (!IsA(type, "relay.TensorType")) return "";
  Fields fields(type);
  const auto shape = runtime::Downcast<Array<ObjectRef>>(fields.Ref("shape"));
  return runtime::DLDataType2String(fields.DType("dtype")) + " " + Joined(shape);
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.StaticType").set_body_typed(StaticType);
TVM_REGISTER_GLOBAL("collage.PlainInts").set_body_typed([](Array<ObjectRef> numbers) {
  return String(Joined(numbers));
});

}  // namespace tvm::collage
