// SPDX-License-Identifier: Apache-2.0
#include "rule_registry.h"

#include <map>
#include <mutex>

namespace tvm::collage {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, RuleMaker> makers;
};

// Never destroyed: makers may hold Python functions, and Python ends first.
Registry& Global() {
  static Registry& registry = *new Registry();
  return registry;
}

}  // namespace

void RegisterRule(const std::string& name, RuleMaker make) {
  Registry& registry = Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.makers[name] = std::move(make);
}

RulePtr FindRule(const std::string& name) {
  RuleMaker make;
  {
    Registry& registry = Global();
    std::lock_guard<std::mutex> lock(registry.mutex);
    auto found = registry.makers.find(name);
    if (found == registry.makers.end()) return nullptr;
    make = found->second;
  }
  return make();  // may itself look for rules
}

std::vector<std::string> RegisteredRuleNames() {
  Registry& registry = Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, make] : registry.makers) names.push_back(name);
  return names;
}

}  // namespace tvm::collage
