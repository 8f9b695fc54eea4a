// SPDX-License-Identifier: Apache-2.0
// What an option takes beyond its type, and how an error and the docs say so.
// Test: tvm/tests/python/collage/test_options.py.
#ifndef TVM_RELAY_COLLAGE_API_OPTION_RANGE_H_
#define TVM_RELAY_COLLAGE_API_OPTION_RANGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_OPTION_RANGE_H_
