// SPDX-License-Identifier: Apache-2.0
// Rules by name, so that a target can ask for one (attribute partition_rule) and a plugin written
// in C++ can bring one. Test: tvm/tests/cpp/rules_registry_test.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "partition_rule.h"

namespace tvm::collage {

// Makes the rule anew for each run of the pass; must not return null.
using RuleMaker = std::function<RulePtr()>;

// A second rule of the same name replaces the first.
COLLAGE_API void RegisterRule(const std::string& name, RuleMaker make);
// The rule of that name, null when there is none.
COLLAGE_API RulePtr FindRule(const std::string& name);
// Sorted.
COLLAGE_API std::vector<std::string> RegisteredRuleNames();

// As a static variable of a plugin: registers while its library is being loaded.
struct RuleRegistration {
  RuleRegistration(const std::string& name, RuleMaker make) { RegisterRule(name, std::move(make)); }
};

}  // namespace tvm::collage
