// SPDX-License-Identifier: Apache-2.0
// What plugins may link against: the library hides all other symbols. docs/rules.md says how.
// Test: rules/test_plugin.py.
#ifndef TVM_RELAY_COLLAGE_GRAPH_API_H_
#define TVM_RELAY_COLLAGE_GRAPH_API_H_

#define COLLAGE_API __attribute__((visibility("default")))

#endif  // TVM_RELAY_COLLAGE_GRAPH_API_H_
