// SPDX-License-Identifier: Apache-2.0
#include "placement.h"

#include <algorithm>
#include <map>
#include <optional>

#include "device_domains.h"

namespace tvm::collage {
namespace {

// Reads one function's parts; every error says which part of which function is wrong.
class PartReader {
 public:
  explicit PartReader(const PlacedFunction& function)
      : graph_(function.imported->graph), name_(function.Name()), seen_(graph_.size()) {}

  // None of a part of names alone, as files of before have them.
  std::optional<PlacedPart> Read(const JsonValue& fields) {
    PlacedPart part;
    part.backend = fields["backend"].Text();
    where_ = "part " + std::to_string(num_read_++) + " (" + part.backend + ")";
    part.rule = fields["rule"].Text();
    part.label = fields["label"].Text();
    const IndexSet inside = ReadNodes(fields["nodes"]);
    if (inside.IsEmpty() && !fields["nodes"].Items().empty()) return std::nullopt;
    if (inside.Intersects(seen_)) {
      Refuse("holds node " + std::to_string((inside & seen_).First()) +
             ", which an earlier part holds");
    }
    seen_ |= inside;
    part.sub_graph = SubGraph::Make(graph_, inside, ReadComposites(fields["composites"]));
    std::string why;
    if (!part.sub_graph.IsValid(graph_, SubGraphConfig(), &why)) Refuse("cannot be one: " + why);
    part.is_primitive = fields["is_primitive"].Bool();
    if (part.is_primitive || !part.sub_graph.nested().empty()) {
      CheckIsDataflow(inside);
      CheckDevice(part.backend, inside);
    }
    return part;
  }

  // Parts and the nodes that none holds, as what must run one after the other.
  void CheckOrder(const std::vector<PlacedPart>& parts) {
    std::vector<IndexSet> sets;
    for (const PlacedPart& part : parts) sets.push_back(part.sub_graph.inside());
    (graph_.placeable() - seen_).ForEach([&](int i) {
      sets.push_back(IndexSet(seen_.size(), {i}));
    });
    const std::vector<int> cycle = FindCycle(graph_, sets);
    if (cycle.empty()) return;
    std::string names;
    for (int p : cycle) {
      const bool is_part = p < static_cast<int>(parts.size());
      names += (names.empty() ? "" : ", ") +
               (is_part ? "part " + std::to_string(p) + " (" + parts[p].backend + ")"
                        : "node " + std::to_string(sets[p].First()));
    }
    where_ = names;
    Refuse("cannot run one after the other: each needs a result of the next");
  }

 private:
  IndexSet ReadNodes(const JsonValue& nodes) const {
    IndexSet set(graph_.size());
    for (const JsonValue& item : nodes.Items()) {
      const int64_t index = item.Int();
      if (index < 0 || index >= graph_.size()) {
        Refuse("holds node " + std::to_string(index) + ", but the function has nodes 0 to " +
               std::to_string(graph_.size() - 1));
      }
      const int node = static_cast<int>(index);
      if (graph_[node].type == NodeType::kLeftOut) continue;
      if (!graph_[node].IsPlaceable()) {
        Refuse("holds a node that runs nowhere: " + graph_.Summary(node));
      }
      set.Add(node);
    }
    return set;
  }

  // What becomes a function holds no scope: a branch or let is the host's.
  void CheckIsDataflow(const IndexSet& inside) const {
    inside.ForEach([&](int i) {
      if (!IsDataflow(graph_, IndexSet(graph_.size(), {i}))) {
        Refuse("holds a node that only the host target runs: " + graph_.Summary(i));
      }
    });
  }

  // Nothing leaves the device that the program wants it on.
  void CheckDevice(const std::string& backend, const IndexSet& inside) {
    inside.ForEach([&](int i) {
      if (graph_[i].device.empty()) return;
      auto [entry, is_new] = device_of_.try_emplace(backend);
      if (is_new) entry->second = DeviceOfTarget(CallGlobal("target.Target", String(backend)));
      if (graph_[i].IsAllowedOn(entry->second)) return;
      Refuse("runs on " + entry->second + " and holds a node that the program wants on " +
             graph_[i].device + ": " + graph_.Summary(i));
    });
  }

  std::vector<NestedSubGraph> ReadComposites(const JsonValue& composites) const {
    std::vector<NestedSubGraph> nested;
    for (const JsonValue& fields : composites.Items()) {
      NestedSubGraph composite{fields["name"].Text(), ReadNodes(fields["nodes"]), {}};
      SubGraph inner = SubGraph::Make(graph_, composite.inside);
      std::string why;
      if (!inner.IsValid(graph_, SubGraphConfig(), &why)) {
        Refuse("has a composite " + composite.composite + " that cannot be one: " + why);
      }
      std::map<std::string, AttrValue> sorted;
      for (const auto& [key, value] : fields["attrs"].Fields()) sorted[key] = value.Attr();
      composite.attrs.assign(sorted.begin(), sorted.end());
      nested.push_back(std::move(composite));
    }
    return nested;
  }

  [[noreturn]] void Refuse(const std::string& reason) const {
    ThrowUserError("PlacementError",
                   "the placement of function @" + name_ + ": " + where_ + " " + reason);
  }

  const DataflowGraph& graph_;
  std::string name_;
  IndexSet seen_;
  std::map<std::string, std::string> device_of_;  // by backend
  std::string where_;
  int num_read_ = 0;
};

}  // namespace

Placement EmptyPlacement(const ObjectRef& mod) {
  Placement placement{mod, {}};
  for (const auto& [global_var, function] : FunctionsOf(mod)) {
    if (CanBePartitioned(function)) {
      placement.functions.push_back({global_var, ImportFunction(function), {}});
    }
  }
  std::sort(placement.functions.begin(), placement.functions.end(),
            [](const auto& a, const auto& b) { return a.Name() < b.Name(); });
  return placement;
}

Json PartsJson(const std::vector<PlacedPart>& parts) {
  std::vector<Json> rows;
  for (const PlacedPart& part : parts) {
    std::vector<Json> composites;
    for (const NestedSubGraph& nested : part.sub_graph.nested()) {
      composites.push_back(JsonObject(
          {{"name", nested.composite}, {"nodes", nested.inside}, {"attrs", nested.attrs}}));
    }
    rows.push_back(JsonObject({{"backend", part.backend},
                               {"rule", part.rule},
                               {"label", part.label},
                               {"nodes", part.sub_graph.inside()},
                               {"composites", composites},
                               {"is_primitive", part.is_primitive},
                               {"cost", part.cost.ToJson()}}));
  }
  return rows;
}

void SetParts(const String& parts_of, Placement* placement) {
  const JsonValue by_function = JsonValue::Parse(parts_of);
  for (const auto& [name, parts] : by_function.Fields()) {
    for (PlacedFunction& function : placement->functions) {
      if (function.Name() != name) continue;
      PartReader reader(function);
      function.parts.clear();
      for (const JsonValue& fields : parts.Items()) {
        if (std::optional<PlacedPart> part = reader.Read(fields)) {
          function.parts.push_back(std::move(*part));
        }
      }
      reader.CheckOrder(function.parts);
    }
  }
}

}  // namespace tvm::collage
