// SPDX-License-Identifier: Apache-2.0
// For tests: nets of any size shaped like real ones, with candidates such as fusion, library
// patterns and regions give.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "src/relay/collage/search/cover_problem.h"

namespace tvm::collage::testing {

// Builds a net node by node; heavy nodes (convolutions) and light ones (the rest).
class NetBuilder {
 public:
  int Add(std::vector<int> inputs, bool is_heavy = false) {
    const int node = problem_.num_nodes++;
    for (int input : inputs) readers_[static_cast<size_t>(input)].push_back(node);
    problem_.inputs.push_back(std::move(inputs));
    readers_.emplace_back();
    is_heavy_.push_back(is_heavy);
    return node;
  }
  // Convolution, bias, activation.
  int AddConv(int input) { return Add({Add({Add({input}, true)})}); }

  // One node each, of layout class 0.
  void OfferSingles() {
    for (int node = 0; node < problem_.num_nodes; ++node) Offer({node}, 0);
  }
  // Every connected convex set of 2 .. max_size nodes with at most one heavy node, which nothing
  // inside feeds; of layout class 0.
  void OfferFusions(size_t max_size) {
    for (int node = 0; node < problem_.num_nodes; ++node) {
      std::set<std::set<int>> seen;
      GrowFusion({node}, node, max_size, &seen);
    }
  }
  // Heavy node with one and with two light followers, of layout class 1.
  void OfferPatterns() {
    for (int node = 0; node < problem_.num_nodes; ++node) {
      if (!is_heavy_[static_cast<size_t>(node)]) continue;
      std::vector<int> nodes{node};
      Offer(nodes, 1);
      for (int i = 0; i < 2; ++i) {
        const std::vector<int>& readers = readers_[static_cast<size_t>(nodes.back())];
        if (readers.size() != 1 || is_heavy_[static_cast<size_t>(readers[0])]) break;
        nodes.push_back(readers[0]);
        Offer(nodes, 1);
      }
    }
  }
  // All nodes first .. last, of layout class 1.
  void OfferRegion(int first, int last) {
    std::vector<int> nodes;
    for (int node = first; node <= last; ++node) nodes.push_back(node);
    Offer(std::move(nodes), 1);
  }
  void Offer(std::vector<int> nodes, int layout_class) {
    // A cost that follows the size, with some unevenness; fewer parts pay less overhead.
    unsigned mix = static_cast<unsigned>(nodes.front() * 31 + nodes.back() * 17 + layout_class * 7);
    mix = mix * 2654435761u >> 16;
    double seconds = 5e-6;
    for (int node : nodes) seconds += is_heavy_[static_cast<size_t>(node)] ? 40e-6 : 4e-6;
    seconds *= 0.9 + 0.2 * static_cast<double>(mix % 1000) / 1000.0;
    problem_.candidates.push_back({std::move(nodes), layout_class, 0.0});
    problem_.costs.push_back(CandidateCost::Known(seconds));
  }

  int num_nodes() const { return problem_.num_nodes; }
  CoverProblem Take() { return std::move(problem_); }

 private:
  void GrowFusion(const std::set<int>& nodes, int first, size_t max_size,
                  std::set<std::set<int>>* seen) {
    if (!seen->insert(nodes).second) return;
    if (nodes.size() > 1 && IsConvex(nodes)) Offer({nodes.begin(), nodes.end()}, 0);
    if (nodes.size() == max_size) return;
    std::set<int> next;
    for (int node : nodes) {
      for (int reader : readers_[static_cast<size_t>(node)]) {
        if (!is_heavy_[static_cast<size_t>(reader)]) next.insert(reader);
      }
      for (int input : problem_.inputs[static_cast<size_t>(node)]) {
        if (input > first && !is_heavy_[static_cast<size_t>(node)] &&
            !is_heavy_[static_cast<size_t>(input)]) {
          next.insert(input);
        }
      }
    }
    for (int node : next) {
      if (nodes.count(node) != 0) continue;
      std::set<int> grown = nodes;
      grown.insert(node);
      GrowFusion(grown, first, max_size, seen);
    }
  }

  bool IsConvex(const std::set<int>& nodes) const {
    std::set<int> after;  // outside nodes that the set feeds, by any path
    for (int node = *nodes.begin() + 1; node <= *nodes.rbegin(); ++node) {
      bool is_after = false;
      bool reads = false;
      for (int input : problem_.inputs[static_cast<size_t>(node)]) {
        is_after = is_after || after.count(input) != 0;
        reads = reads || nodes.count(input) != 0;
      }
      if (nodes.count(node) != 0) {
        if (is_after) return false;
      } else if (reads || is_after) {
        after.insert(node);
      }
    }
    return true;
  }

  CoverProblem problem_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> is_heavy_;
};

struct NetOptions {
  int min_nodes = 100;
  size_t max_fusion = 4;
  bool regions = true;
};

inline CoverProblem Finish(NetBuilder* net, const std::vector<int>& block_ends,
                           const NetOptions& options) {
  net->OfferSingles();
  net->OfferFusions(options.max_fusion);
  net->OfferPatterns();
  if (options.regions) {
    for (size_t i = 1; i < block_ends.size(); ++i) {
      net->OfferRegion(block_ends[i - 1] + 1, block_ends[i]);
      if (i > 4) net->OfferRegion(block_ends[i - 5] + 1, block_ends[i]);
      // One that ends inside the block, so that the rest of the block must wait beside it.
      net->OfferRegion(block_ends[i - 1] + 1, (block_ends[i - 1] + block_ends[i]) / 2);
    }
    net->OfferRegion(0, net->num_nodes() - 1);
  }
  return net->Take();
}

// Convolution, bias, activation, again and again.
inline CoverProblem ChainNet(const NetOptions& options) {
  NetBuilder net;
  std::vector<int> ends{net.Add({})};
  while (net.num_nodes() < options.min_nodes) ends.push_back(net.AddConv(ends.back()));
  return Finish(&net, ends, options);
}

// Blocks of four branches of one, two, three and one convolutions, joined.
inline CoverProblem InceptionNet(const NetOptions& options) {
  NetBuilder net;
  std::vector<int> ends{net.Add({})};
  while (net.num_nodes() < options.min_nodes) {
    const int in = ends.back();
    const int a = net.AddConv(in);
    const int b = net.AddConv(net.AddConv(in));
    const int c = net.AddConv(net.AddConv(net.AddConv(in)));
    const int d = net.AddConv(net.Add({in}));
    ends.push_back(net.Add({a, b, c, d}));
  }
  return Finish(&net, ends, options);
}

// Each layer reads the joined outputs of all layers of its block of twelve.
inline CoverProblem DenseNet(const NetOptions& options) {
  NetBuilder net;
  std::vector<int> ends{net.Add({})};
  while (net.num_nodes() < options.min_nodes) {
    std::vector<int> features{ends.back()};
    for (int layer = 0; layer < 12; ++layer) {
      const int joined = net.Add(features);
      const int activated = net.Add({net.Add({joined})});
      features.push_back(net.AddConv(net.AddConv(activated)));
    }
    ends.push_back(net.AddConv(net.Add(features)));
  }
  return Finish(&net, ends, options);
}

// Cells that read the two cells before them: five pairs of branches, added and joined.
inline CoverProblem CellNet(const NetOptions& options) {
  NetBuilder net;
  std::vector<int> ends{net.Add({})};
  int before = ends.back();
  while (net.num_nodes() < options.min_nodes) {
    const int p = net.AddConv(before);
    const int q = net.AddConv(ends.back());
    std::vector<int> sums;
    for (int pair = 0; pair < 5; ++pair) {
      const int left = net.AddConv(net.AddConv(pair % 2 == 0 ? p : q));
      const int right = pair < 3 ? net.AddConv(q) : net.Add({p});
      sums.push_back(net.Add({left, right}));
    }
    before = ends.back();
    ends.push_back(net.Add(sums));
  }
  return Finish(&net, ends, options);
}

}  // namespace tvm::collage::testing
