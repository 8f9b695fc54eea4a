// SPDX-License-Identifier: Apache-2.0
#include "gather_specs.h"

#include "rule_objects.h"
#include "target_kind.h"

namespace tvm::collage {
namespace {

RulePtr ExternalRule(const std::string& name) {
  // Looked up each time: a test or a user may have replaced it.
  const PackedFunc* make = runtime::Registry::Get("tvm.relay.collage.make_byoc_partition_rule");
  ICHECK(make) << "InternalError: tvm.relay.collage is not imported";
  ObjectRef rule = (*make)(String(name));
  return runtime::Downcast<PartitionRuleRef>(rule)->rule;
}

}  // namespace

std::vector<TargetSpec> GatherSpecs(const ObjectRef& compilation_config,
                                    const CollageOptions& options) {
  Fields config(compilation_config);
  RuleOptions tvm_options;
  tvm_options.max_depth = static_cast<int>(options.tvm_max_depth);
  tvm_options.max_candidates_per_node = static_cast<int>(options.max_candidates_per_node);
  std::vector<TargetSpec> specs;
  for (const ObjectRef& target :
       runtime::Downcast<Array<ObjectRef>>(config.Ref("primitive_targets"))) {
    ObjectRef kind = RefField(target, "kind");
    std::string name = Fields(kind).Str("name");
    bool is_external = IsExternalKind(kind);
    RulePtr rule = is_external ? ExternalRule(name) : TvmRule(tvm_options);
    specs.push_back({{name, is_external, rule}, target});
  }
  specs.push_back({{"host", false, HostRule()}, config.Ref("host_target")});
  return specs;
}

}  // namespace tvm::collage
