// SPDX-License-Identifier: Apache-2.0
/*!
 * \file execution_order.h
 * \brief An order in which the parts of a cover can run. Tested by search_cover_test.cc.
 */
#ifndef TVM_RELAY_COLLAGE_SEARCH_EXECUTION_ORDER_H_
#define TVM_RELAY_COLLAGE_SEARCH_EXECUTION_ORDER_H_

#include <vector>

#include "part_table.h"

namespace tvm {
namespace collage {

/*!
 * \brief The cover's parts, each after those that it reads; of the parts that can run, the one with
 * the least first node comes first. Needs a cover with acyclic quotient.
 */
std::vector<int> ExecutionOrder(const PartTable& parts, const std::vector<int>& cover);

}  // namespace collage
}  // namespace tvm

#endif  // TVM_RELAY_COLLAGE_SEARCH_EXECUTION_ORDER_H_
