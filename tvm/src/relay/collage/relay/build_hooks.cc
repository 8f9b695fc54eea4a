// SPDX-License-Identifier: Apache-2.0
// What our builds change in TVM's objects: a PassContext's instruments are exchanged without
// telling them that the context is left and entered again, at which some forget what they have
// seen; and TVM's module that gives external modules their constants gets these alone, each once
// (TVM gives it those of the host's kernels too, so that a file held them twice). Precondition: no
// pass runs in that context. Test: compile/test_library.py,
// compile/test_constants.py.
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "fields.h"

namespace tvm::collage {
namespace {

TVM_REGISTER_GLOBAL("collage.SetInstruments")
    .set_body_typed([](ObjectRef context, Array<ObjectRef> instruments) {
      ICHECK(IsA(context, "transform.PassContext")) << "only a PassContext has instruments";
      bool is_done = false;
      VisitFields(context, [&](const char* key, FieldPointer field) {
        if (std::strcmp(key, "instruments") != 0) return;
        *std::get<ObjectRef*>(field) = instruments;
        is_done = true;
      });
      ICHECK(is_done) << "the PassContext of the base TVM package has no instruments";
    });

// A loader of the same modules; names of one array become its first name.
runtime::Module SlimConstLoader(runtime::Module loader) {
  const Map<String, NDArray> arrays = loader.GetFunction("get_const_var_ndarray")();
  std::unordered_map<std::string, NDArray> kept;
  std::unordered_map<std::string, std::vector<std::string>> names_of;
  std::unordered_map<const void*, std::string> first_name;
  for (runtime::Module each : loader->imports()) {
    const PackedFunc symbol = each.GetFunction("get_symbol");
    const PackedFunc variables = each.GetFunction("get_const_vars");
    if (symbol == nullptr || variables == nullptr) continue;
    // TVM's C sources have the symbol of their first function, and the host's may have none at all.
    const PackedFunc functions = each.GetFunction("get_func_names");
    if (functions != nullptr && functions().operator Array<String>().empty()) continue;
    std::vector<std::string>& names = names_of[symbol()];
    for (const String& variable : variables().operator Array<String>()) {
      const NDArray array = arrays.at(variable);
      const std::string& name = first_name.emplace(array.get(), variable).first->second;
      kept.emplace(name, array);
      names.push_back(name);
    }
  }
  runtime::Module slim = runtime::ConstLoaderModuleCreate(kept, names_of);
  for (const runtime::Module& each : loader->imports()) slim.Import(each);
  return slim;
}

TVM_REGISTER_GLOBAL("collage.SlimConstLoader").set_body_typed(SlimConstLoader);

}  // namespace

}  // namespace tvm::collage
