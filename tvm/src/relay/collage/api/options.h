// SPDX-License-Identifier: Apache-2.0
// Collage's options: one table of name, type, default, range and meaning for C++, Python and tvmc.
// Precondition: RegisterPassOptions ran (Init does). Test: test_options.py.
#ifndef TVM_RELAY_COLLAGE_API_OPTIONS_H_
#define TVM_RELAY_COLLAGE_API_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../relay/fields.h"

namespace tvm::collage {

using Names = std::vector<std::string>;

/*! \brief `takes` is empty, and so is the function, where every value of the type will do. */
template <typename T>
struct OptionRange {
  std::string takes;
  std::function<bool(const T&)> is_allowed;
};

struct AnyValue {
  template <typename T>
  operator OptionRange<T>() const {
    return {};
  }
};

/*! \brief Both ends are allowed. */
OptionRange<int64_t> Between(int64_t least, int64_t greatest);
OptionRange<int64_t> AtLeast(int64_t least);
/*! \brief From zero to `greatest`, both with. */
OptionRange<double> UpTo(int64_t greatest);
/*! \brief More than zero, up to and with `greatest`. */
OptionRange<double> PositiveUpTo(int64_t greatest);
OptionRange<std::string> OneOf(const Names& names);
OptionRange<Names> EachOneOf(const Names& names);

/*! \brief How whole plans are searched: genomes.py's strategies, or not at all. */
inline OptionRange<std::string> PlanStrategy() {
  return OneOf({"none", "evolutionary", "local", "random"});
}

/*! \brief Names of Python's logging, and what leaves it as it is. */
const Names& LogLevelNames();
/*! \brief What FusionStyle's values are called, in their order. */
const Names& FusionStyleNames();
/*! \brief Each is "<backend>.<style>". */
OptionRange<Names> EachAFusionStyle();
/*! \brief The two halves of "<backend>.<style>"; a name of a backend may hold dots. */
struct NamedStyle {
  std::string backend;
  std::string style;
};
NamedStyle SplitFusionStyle(const std::string& text);

/*! \brief Of options that count something: far more than any model has, and fits an int. */
inline constexpr int64_t kMostCount = 1000000000;
inline constexpr int64_t kMostWorkers = 1024;
inline constexpr int64_t kMostSeconds = 1000000;

// docs/options.md shows this table.
// X(type, name, default, range, meaning); the key in the PassContext is "relay.collage." + name.
// The first group keeps TVM's own names and meanings.
#define COLLAGE_OPTIONS(X)                                                                   \
  X(int64_t, tvm_max_depth, 8, Between(1, kMostCount),                                       \
    "longest chain of calls in one candidate for TVM")                                       \
  X(int64_t, byoc_max_depth, 8, Between(1, kMostCount),                                      \
    "longest chain of calls in one candidate for a pattern backend")                         \
  X(Names, byoc_fusion_style, Names(), EachAFusionStyle(),                                   \
    "how patterns combine, as <backend>.NoFusion")                                           \
  X(bool, enable_collage, false, AnyValue(),                                                 \
    "place every part of the model on its fastest backend")                                  \
  X(int64_t, max_candidates_per_node, 2048, Between(1, kMostCount),                          \
    "most candidates of one rule that start at one node")                                    \
  X(int64_t, max_exits, 1, Between(0, kMostCount),                                           \
    "most values that one candidate gives; 0 means no limit")                                \
  X(int64_t, region_cuts, 1, Between(0, kMostCount),                                         \
    "most expensive parts without which a region is offered, too")                           \
  X(bool, tvm_regions, false, AnyValue(), "offer TVM whole regions of several kernels, too") \
  X(bool, merge_parts, false, AnyValue(),                                                    \
    "join neighbouring parts of one external backend after the search")                      \
  X(double, search_seconds, 0.0, UpTo(kMostSeconds),                                         \
    "time to ask for costs of more than single operators in, in seconds; 0 means no limit")  \
  X(bool, cost_bounds, false, AnyValue(),                                                    \
    "measure this machine's peaks, and ask for no cost that cannot matter by them")          \
  X(bool, measure_kernels, true, AnyValue(),                                                 \
    "time the kernels of steps that have several, and run the fastest")                      \
  X(bool, guard, true, AnyValue(),                                                           \
    "measure the plan whole beside each backend alone, ship the fastest")                    \
  X(int64_t, guard_rounds, 30, Between(1, kMostCount), "interleaved rounds of the guard")    \
  X(double, guard_seconds, 30.0, PositiveUpTo(kMostSeconds),                                 \
    "time for further rounds while plans cannot be told apart, in seconds")                  \
  X(std::string, graph_search, "none", PlanStrategy(),                                       \
    "how whole plans are searched end to end after the search by operators")                 \
  X(int64_t, graph_search_population, 8, Between(2, kMostCount),                             \
    "plans that are measured beside each other, and survive, in that search")                \
  X(int64_t, graph_search_trials, 64, Between(1, kMostCount),                                \
    "plans that it tries, equal ones once, until the search ends")                           \
  X(double, graph_search_seconds, 600.0, PositiveUpTo(kMostSeconds),                         \
    "time for it, in seconds; the plans at hand are still measured")                         \
  X(int64_t, graph_search_seed, 0, AtLeast(0), "seed of what it tries by chance")            \
  X(double, measure_seconds, 0.3, PositiveUpTo(kMostSeconds),                                \
    "time spent running one candidate, in seconds")                                          \
  X(double, measure_timeout, 60.0, PositiveUpTo(kMostSeconds),                               \
    "a candidate's build or run longer than this is a timeout")                              \
  X(int64_t, workers, 0, Between(0, kMostWorkers),                                           \
    "processes that build candidates; 0 means one a thread, 8 at most")                      \
  X(int64_t, seed, 0, AtLeast(0), "seed of the random inputs that are measured")             \
  X(std::string, sample_inputs, "", AnyValue(),                                              \
    "file of arrays by input name (.npz) that whole plans run on; empty for made-up ones")   \
  X(std::string, verify, "external", OneOf({"all", "external", "none"}),                     \
    "whose outputs are compared with TVM's; none leaves backends that can be wrong")         \
  X(double, accuracy_budget, 0.0, UpTo(1),                                                   \
    "largest output error by backends that trade accuracy; 0 leaves these out")              \
  X(bool, vector_math, true, AnyValue(),                                                     \
    "vector forms of exp, tanh, erf, sigmoid, log and pow in TVM's kernels")                 \
  X(std::string, progress, "auto", OneOf({"auto", "rich", "lines", "quiet", "json"}),        \
    "what is shown while measuring: auto means rich on a terminal, else lines")              \
  X(std::string, log_level, "notset", OneOf(LogLevelNames()),                                \
    "least level of log lines of Collage; notset leaves logging as the program set it")      \
  X(std::string, report, "", AnyValue(),                                                     \
    "file that the report is written to, as JSON; empty for none")                           \
  X(std::string, placement, "", AnyValue(),                                                  \
    "file of a saved placement to use: then nothing is measured")                            \
  X(Names, placement_allow, Names(),                                                         \
    EachOneOf({"weights", "version", "machine", "target", "tuning"}),                        \
    "how a saved placement may differ from what is built here")                              \
  X(std::string, store, "", AnyValue(),                                                      \
    "file of measured costs; empty means the user's own, none for none")                     \
  X(Names, tuning_log, Names(), AnyValue(),                                                  \
    "logs whose tuning records TVM's kernels use, besides those in force")                   \
  X(int64_t, tune, 0, Between(0, kMostCount),                                                \
    "trials for each kernel of TVM's without a record; 0 means no tuning")                   \
  X(std::string, tuner, "autotvm", OneOf({"autotvm", "ansor", "metaschedule"}),              \
    "who searches schedules for tune")                                                       \
  X(std::string, tune_model, "xgb", OneOf({"xgb", "random"}),                                \
    "what guides that search: a cost model of xgboost, or chance")                           \
  X(std::string, tune_log, "", AnyValue(),                                                   \
    "file that keeps that search's trials; empty means the user's own")                      \
  X(double, tune_seconds, 600.0, PositiveUpTo(kMostSeconds),                                 \
    "time for all of that search, in seconds")                                               \
  X(bool, retry_failed, false, AnyValue(),                                                   \
    "measure again what the store knows as a failure or as noisy")                           \
  X(std::string, rpc_tracker, "", AnyValue(),                                                \
    "host:port of an RPC tracker: measure on its devices instead of here")                   \
  X(std::string, rpc_key, "", AnyValue(), "the tracker's key of the devices to measure on")  \
  X(double, rpc_wait, 10.0, PositiveUpTo(kMostSeconds),                                      \
    "how long to wait for a free device, in seconds")                                        \
  X(std::string, rpc_compiler, "", AnyValue(),                                               \
    "C++ compiler that links for the devices; empty means this machine's own")

struct CollageOptions {
#define COLLAGE_FIELD(type, name, default_value, range, meaning) type name = default_value;
  COLLAGE_OPTIONS(COLLAGE_FIELD)
#undef COLLAGE_FIELD

  /*! \brief The options of the innermost PassContext; what is not set there has its default.
   * \throw TypeError or ValueError that names the option, what it takes and what it got. */
  static CollageOptions Current();
  /*! \brief The same of a PassContext's config: "relay.collage.<name>" -> value. */
  static CollageOptions Of(const Map<String, ObjectRef>& config);
};

/*!
 * \brief Makes the PassContext accept the options. A value of a wrong type is then a TypeError that
 * names the option, what it takes and what it got. Options that TVM or a second copy of this
 * library registered before are left as they are.
 */
void RegisterPassOptions();

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_OPTIONS_H_
