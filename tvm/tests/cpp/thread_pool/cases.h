// SPDX-License-Identifier: Apache-2.0
// The main of a program that runs one of its cases by name.
#ifndef TESTS_CPP_THREAD_POOL_CASES_H_
#define TESTS_CPP_THREAD_POOL_CASES_H_

#include <cstdio>
#include <map>
#include <string>

using Cases = std::map<std::string, void (*)()>;

// 0 when the case returns; 2, with all names, when the only argument is none of them.
inline int RunCase(const Cases& cases, int argc, char** argv) {
  auto found = argc == 2 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    for (const auto& [name, unused] : cases) std::fprintf(stderr, "%s\n", name.c_str());
    return 2;
  }
  found->second();
  return 0;
}

#endif  // TESTS_CPP_THREAD_POOL_CASES_H_
