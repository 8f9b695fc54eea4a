// SPDX-License-Identifier: Apache-2.0
// The rules that options ask for, and those that a target brings (RFC 0062, phase 1).
// Precondition: Init ran. Test: rules/test_target.py.
#ifndef TVM_RELAY_COLLAGE_API_BACKEND_RULES_H_
#define TVM_RELAY_COLLAGE_API_BACKEND_RULES_H_

#include <string>

#include "../relay/fields.h"
#include "../rules/default_rules.h"
#include "options.h"

namespace tvm::collage {

/*! \brief How large what TVM could fuse may be, by the options. */
RuleOptions TvmRuleOptions(const CollageOptions& options);

/*!
 * \brief The target's own rule, null when it has none: the rule registered under its attribute
 * `partition_rule`, else its kind's attribute of that name: a rule, a function that makes one, or a
 * registered name. \throw ValueError or TypeError that names the target.
 */
RulePtr OwnRuleOf(const ObjectRef& target);

/*! \brief Makes a target kind accept the attribute `partition_rule`. */
void AddPartitionRuleOption(const std::string& kind);
/*! \brief The same for all kinds that TVM knows by now, once; keeps what they were before. */
void RegisterPartitionRuleAttribute();

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_BACKEND_RULES_H_
