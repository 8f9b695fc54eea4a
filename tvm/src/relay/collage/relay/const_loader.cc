// SPDX-License-Identifier: Apache-2.0
/*!
 * \file const_loader.cc
 * \brief TVM's module that gives external modules their constants, with these alone, each once.
 *
 * TVM's build gives it the constants of the host's kernels too, which the executor has, so that a
 * file held them twice. Tested by test_build_constants.py.
 */
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/registry.h>

#include "base_package.h"

namespace tvm::collage {
namespace {

using runtime::Array;
using runtime::Map;
using runtime::Module;
using runtime::NDArray;
using runtime::PackedFunc;
using runtime::String;

/*! \brief A loader of the same modules; names of one array become its first name. */
Module SlimConstLoader(Module loader) {
  const Map<String, NDArray> arrays = loader.GetFunction("get_const_var_ndarray")();
  std::unordered_map<std::string, NDArray> kept;
  std::unordered_map<std::string, std::vector<std::string>> names_of;
  std::unordered_map<const void*, std::string> first_name;
  for (Module each : loader->imports()) {
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
  Module slim = runtime::ConstLoaderModuleCreate(kept, names_of);
  for (const Module& each : loader->imports()) slim.Import(each);
  return slim;
}

TVM_REGISTER_GLOBAL("collage.SlimConstLoader").set_body_typed(SlimConstLoader);

}  // namespace
}  // namespace tvm::collage
