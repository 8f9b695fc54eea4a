// SPDX-License-Identifier: Apache-2.0
#include "placement.h"

#include <algorithm>
#include <map>
#include <optional>

#include "construct.h"
#include "device_domains.h"
#include "import_attrs.h"

namespace tvm::collage {
namespace {

using runtime::ShapeTuple;

ShapeTuple AsTuple(const IndexSet& nodes) {
  const std::vector<int> members = nodes.ToVector();
  return ShapeTuple(std::vector<ShapeTuple::index_type>(members.begin(), members.end()));
}

ObjectRef CompositeRow(const NestedSubGraph& nested) {
  Map<String, ObjectRef> attrs;
  for (const auto& [key, value] : nested.attrs) attrs.Set(key, ExportAttr(value));
  return Array<ObjectRef>{String(nested.composite), AsTuple(nested.inside), attrs};
}

/*! \brief Reads one function's rows; every error says which part of which function is wrong. */
class PartReader {
 public:
  explicit PartReader(const PlacedFunction& function)
      : graph_(function.imported->graph), name_(function.Name()), seen_(graph_.size()) {}

  /*! \brief None of a part of names alone, as files of before have them. */
  std::optional<PlacedPart> Read(const ObjectRef& untyped) {
    auto row = runtime::Downcast<Array<ObjectRef>>(untyped);
    PlacedPart part;
    part.backend = runtime::Downcast<String>(row[0]);
    where_ = "part " + std::to_string(num_read_++) + " (" + part.backend + ")";
    part.rule = runtime::Downcast<String>(row[1]);
    part.label = runtime::Downcast<String>(row[2]);
    const IndexSet inside = ReadNodes(row[3]);
    if (inside.IsEmpty() && !runtime::Downcast<ShapeTuple>(row[3]).empty()) return std::nullopt;
    if (inside.Intersects(seen_)) {
      Refuse("holds node " + std::to_string((inside & seen_).First()) +
             ", which an earlier part holds");
    }
    seen_ |= inside;
    part.sub_graph = SubGraph::Make(graph_, inside, ReadComposites(row[4]));
    std::string why;
    if (!part.sub_graph.IsValid(graph_, SubGraphConfig(), &why)) Refuse("cannot be one: " + why);
    part.is_primitive = runtime::Downcast<runtime::Bool>(row[5])->value;
    if (part.is_primitive || !part.sub_graph.nested().empty()) {
      CheckIsDataflow(inside);
      CheckDevice(part.backend, inside);
    }
    part.cost.status = runtime::Downcast<String>(row[6]);
    part.cost.seconds = runtime::Downcast<runtime::Float>(row[7])->value;
    part.cost.message = runtime::Downcast<String>(row[8]);
    return part;
  }

  /*! \brief Parts and the nodes that none holds, as what must run one after the other. */
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
  IndexSet ReadNodes(const ObjectRef& nodes) const {
    IndexSet set(graph_.size());
    for (int64_t index : runtime::Downcast<ShapeTuple>(nodes)) {
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

  /*! \brief What becomes a function holds no scope: a branch or let is the host's. */
  void CheckIsDataflow(const IndexSet& inside) const {
    inside.ForEach([&](int i) {
      if (!IsDataflow(graph_, IndexSet(graph_.size(), {i}))) {
        Refuse("holds a node that only the host target runs: " + graph_.Summary(i));
      }
    });
  }

  /*! \brief Nothing leaves the device that the program wants it on. */
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

  std::vector<NestedSubGraph> ReadComposites(const ObjectRef& rows) const {
    std::vector<NestedSubGraph> nested;
    for (const auto& row : runtime::Downcast<Array<Array<ObjectRef>>>(rows)) {
      NestedSubGraph composite{runtime::Downcast<String>(row[0]), ReadNodes(row[1]), {}};
      SubGraph inner = SubGraph::Make(graph_, composite.inside);
      std::string why;
      if (!inner.IsValid(graph_, SubGraphConfig(), &why)) {
        Refuse("has a composite " + composite.composite + " that cannot be one: " + why);
      }
      std::map<std::string, AttrValue> sorted;
      for (const auto& [key, value] : runtime::Downcast<Map<String, ObjectRef>>(row[2])) {
        sorted[key] = ImportAttr(value);
      }
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

Array<ObjectRef> PartRows(const std::vector<PlacedPart>& parts) {
  Array<ObjectRef> rows;
  for (const PlacedPart& part : parts) {
    Array<ObjectRef> composites;
    for (const NestedSubGraph& nested : part.sub_graph.nested()) {
      composites.push_back(CompositeRow(nested));
    }
    rows.push_back(Array<ObjectRef>{String(part.backend), String(part.rule), String(part.label),
                                    AsTuple(part.sub_graph.inside()), composites,
                                    runtime::Bool(part.is_primitive), String(part.cost.status),
                                    runtime::Float(part.cost.seconds), String(part.cost.message)});
  }
  return rows;
}

void SetParts(const Map<String, Array<ObjectRef>>& rows_of, Placement* placement) {
  for (PlacedFunction& function : placement->functions) {
    auto rows = rows_of.Get(function.Name());
    if (!rows) continue;
    PartReader reader(function);
    function.parts.clear();
    for (const ObjectRef& row : rows.value()) {
      if (std::optional<PlacedPart> part = reader.Read(row)) {
        function.parts.push_back(std::move(*part));
      }
    }
    reader.CheckOrder(function.parts);
  }
}

}  // namespace tvm::collage
