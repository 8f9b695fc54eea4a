// SPDX-License-Identifier: Apache-2.0
#include "rule_objects.h"

#include <map>

#include "../graph/json.h"
#include "../relay/import_pattern.h"
#include "../rules/default_rules.h"
#include "../rules/rule_registry.h"
#include "user_functions.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(PartitionRuleRef::ContainerType);
TVM_REGISTER_OBJECT_TYPE(CombinerRef::ContainerType);

namespace {

PartitionRuleRef DFPattern(String name, ObjectRef pattern, PackedFunc predicate) {
  DataflowPattern imported = ImportPattern(pattern, ExprOf);
  std::string reason = UnsupportedReason(imported);
  if (!reason.empty()) LOG(WARNING) << "pattern " << name << " is left out: " << reason;
  return PartitionRuleRef(DFPatternRule(name, std::move(imported), AsMatchPredicate(predicate)));
}

PartitionRuleRef OpPredicateOfAttribute(String name, String attribute) {
  if (!HasOpAttribute(attribute)) {
    ThrowUserError("ValueError", "rule " + std::string(name) + ": no op has the attribute '" +
                                     std::string(attribute) + "'");
  }
  return PartitionRuleRef(OpPredicateRule(name, AttributePredicate(attribute)));
}

std::vector<RulePtr> RulesOf(const Array<PartitionRuleRef>& objects) {
  std::vector<RulePtr> rules;
  for (const PartitionRuleRef& object : objects) rules.push_back(object->rule);
  return rules;
}

// Numbers and flags of a rule come as JSON, by the names of the arguments in rules/rule.py.

PartitionRuleRef OnlyValid(PartitionRuleRef sub_rule, String limits) {
  const auto config = SubGraphConfig::Of(JsonValue::Parse(limits));
  return PartitionRuleRef(OnlyValidRule(config, sub_rule->rule));
}

PartitionRuleRef Combine(PartitionRuleRef sub_rule, Array<CombinerRef> combiners, String text) {
  std::vector<CombinerPtr> pointers;
  for (const CombinerRef& combiner : combiners) pointers.push_back(combiner->combiner);
  const JsonValue given = JsonValue::Parse(text);
  const auto config = SubGraphConfig::Of(given);
  const CombineLimits limits{config.max_depth, config.max_exits, config.allow_taps,
                             static_cast<int>(given["max_candidates_per_node"].Int())};
  return PartitionRuleRef(CombineRule(sub_rule->rule, std::move(pointers), limits));
}

PartitionRuleRef Region(PartitionRuleRef sub_rule, String text) {
  const JsonValue given = JsonValue::Parse(text);
  return PartitionRuleRef(RegionRule(sub_rule->rule, SubGraphConfig::Of(given),
                                     given["keep_parts"].Bool(),
                                     static_cast<int>(given["max_cuts"].Int())));
}

RuleOptions OptionsOf(const JsonValue& fields) {
  static const std::map<std::string, FusionStyle> styles = {
      {"NoFusion", FusionStyle::kNone},
      {"TVMFusion", FusionStyle::kTvm},
      {"ArbitraryFusion", FusionStyle::kArbitrary},
  };
  RuleOptions options;
  options.max_depth = static_cast<int>(fields["max_depth"].Int());
  options.max_candidates_per_node = static_cast<int>(fields["max_candidates_per_node"].Int());
  options.max_exits = static_cast<int>(fields["max_exits"].Int());
  options.fusion_style = styles.at(fields["style"].Text());
  options.regions = fields["regions"].Bool();
  options.region_cuts = static_cast<int>(fields["region_cuts"].Int());
  for (const JsonValue& node : fields["left_out"].Items()) {
    options.left_out.push_back(static_cast<NodeIndex>(node.Int()));
  }
  return options;
}

PartitionRuleRef Tvm(String options) {
  return PartitionRuleRef(TvmRule(OptionsOf(JsonValue::Parse(options))));
}

// The backend's rule from those of its table's lines and from its op attribute
// `collage.target.<compiler>`, whose answers have reasons, else `target.<compiler>`, if any op has
// it.
PartitionRuleRef MakeBackendRule(String compiler, Array<PartitionRuleRef> entries, String options) {
  CallPredicate bare;
  for (const char* prefix : {"target.", "collage.target."}) {
    const std::string attribute = prefix + std::string(compiler);
    if (HasOpAttribute(attribute)) {
      bare = AttributePredicate(attribute, HasLocalPredicates(compiler));
    }
  }
  return PartitionRuleRef(
      BackendRule(RulesOf(entries), OptionsOf(JsonValue::Parse(options)), std::move(bare)));
}

// One line of a pattern table; predicate and attrs getter may be null.
PartitionRuleRef MakePatternEntry(String compiler, String composite, ObjectRef pattern,
                                  PackedFunc predicate, PackedFunc attrs) {
  PatternEntry entry{composite, ImportPattern(pattern, ExprOf),
                     AsMatchPredicate(predicate, HasLocalPredicates(compiler)),
                     AsAttrsGetter(attrs)};
  std::string reason = UnsupportedReason(entry.pattern);
  if (!reason.empty()) {
    LOG(WARNING) << "pattern " << composite << " of backend " << compiler
                 << " is left out: " << reason;
  }
  return PartitionRuleRef(PatternEntryRule(std::move(entry)));
}

ObjectRef Registered(String name) {
  const RulePtr rule = FindRule(name);
  return rule ? PartitionRuleRef(rule) : ObjectRef();
}

}  // namespace

TVM_REGISTER_GLOBAL("collage.rules.Summary").set_body_typed([](PartitionRuleRef rule) {
  return String(rule->rule->Summary());
});
TVM_REGISTER_GLOBAL("collage.rules.CombinerSummary").set_body_typed([](CombinerRef combiner) {
  return String(combiner->combiner->Summary());
});

TVM_REGISTER_GLOBAL("collage.rules.DFPattern").set_body_typed(DFPattern);
TVM_REGISTER_GLOBAL("collage.rules.OpCallByKind").set_body_typed([] {
  return PartitionRuleRef(OpCallByKindRule());
});
TVM_REGISTER_GLOBAL("collage.rules.OpPredicate").set_body_typed([](String name, PackedFunc takes) {
  return PartitionRuleRef(OpPredicateRule(name, AsCallPredicate(takes)));
});
TVM_REGISTER_GLOBAL("collage.rules.OpPredicateOfAttribute").set_body_typed(OpPredicateOfAttribute);
TVM_REGISTER_GLOBAL("collage.rules.Glue").set_body_typed([] {
  return PartitionRuleRef(GlueRule());
});
TVM_REGISTER_GLOBAL("collage.rules.Host").set_body_typed([] {
  return PartitionRuleRef(HostRule());
});

TVM_REGISTER_GLOBAL("collage.rules.Composite")
    .set_body_typed([](String label, PartitionRuleRef sub_rule, PackedFunc attrs) {
      return PartitionRuleRef(CompositeRule(label, sub_rule->rule, AsAttrsGetter(attrs)));
    });
TVM_REGISTER_GLOBAL("collage.rules.Primitive").set_body_typed([](PartitionRuleRef sub_rule) {
  return PartitionRuleRef(PrimitiveRule(sub_rule->rule));
});
TVM_REGISTER_GLOBAL("collage.rules.Joinable").set_body_typed([](PartitionRuleRef sub_rule) {
  return PartitionRuleRef(JoinableRule(sub_rule->rule));
});
TVM_REGISTER_GLOBAL("collage.rules.Union").set_body_typed([](Array<PartitionRuleRef> sub_rules) {
  return PartitionRuleRef(UnionRule(RulesOf(sub_rules)));
});
TVM_REGISTER_GLOBAL("collage.rules.OnlyValid").set_body_typed(OnlyValid);
TVM_REGISTER_GLOBAL("collage.rules.Combine").set_body_typed(Combine);
TVM_REGISTER_GLOBAL("collage.rules.Region").set_body_typed(Region);

TVM_REGISTER_GLOBAL("collage.rules.ByKind").set_body_typed([](int upstream, int downstream) {
  return CombinerRef(
      ByKindCombiner(static_cast<OpKind>(upstream), static_cast<OpKind>(downstream)));
});
TVM_REGISTER_GLOBAL("collage.rules.TupleArg").set_body_typed([] {
  return CombinerRef(TupleArgCombiner());
});
TVM_REGISTER_GLOBAL("collage.rules.TupleProjection").set_body_typed([] {
  return CombinerRef(TupleProjectionCombiner());
});
TVM_REGISTER_GLOBAL("collage.rules.JoinAnything").set_body_typed([] {
  return CombinerRef(JoinAnythingCombiner());
});
TVM_REGISTER_GLOBAL("collage.rules.Constants").set_body_typed([] {
  return CombinerRef(ConstantsCombiner());
});

TVM_REGISTER_GLOBAL("collage.rules.Register")
    .set_body_typed([](String name, PartitionRuleRef rule) {
      RegisterRule(name, [kept = rule->rule] { return kept; });
    });
// Null when there is none of that name, or what was registered makes none.
TVM_REGISTER_GLOBAL("collage.rules.Registered").set_body_typed(Registered);
TVM_REGISTER_GLOBAL("collage.rules.RegisteredNames").set_body_typed([] {
  Array<String> names;
  for (const std::string& name : RegisteredRuleNames()) names.push_back(name);
  return names;
});

// Assemblies for TVM and for backends; `options` are RuleOptions by name.
TVM_REGISTER_GLOBAL("collage.rules.Tvm").set_body_typed(Tvm);
TVM_REGISTER_GLOBAL("collage.MakeBackendRule").set_body_typed(MakeBackendRule);
TVM_REGISTER_GLOBAL("collage.MakePatternEntry").set_body_typed(MakePatternEntry);
TVM_REGISTER_GLOBAL("collage.HasOpAttribute").set_body_typed([](String attribute) {
  return HasOpAttribute(attribute);
});

}  // namespace tvm::collage
