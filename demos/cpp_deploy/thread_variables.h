// SPDX-License-Identifier: Apache-2.0
// Gives the variables of threads the values that `import tvm` gives them in Python.
//
// Precondition: called first in main, before other threads and open files. Tested by
// backends/dnnl/test_deploy.py.
#ifndef COLLAGE_THREAD_VARIABLES_H_
#define COLLAGE_THREAD_VARIABLES_H_

#include <unistd.h>

#include <cstdlib>

// Sets a variable that has no value; whether it did.
inline bool SetIfUnset(const char* name, const char* value) {
  const char* before = std::getenv(name);
  if (value == nullptr || (before != nullptr && *before != '\0')) return false;
  return setenv(name, value, /*overwrite=*/1) == 0;
}

// Sets those that the user has not set, and starts the program once more if there were any:
//  OpenMP reads its own while the program is being loaded.
inline void SetThreadVariables(char** argv) {
  // Threads that wait longer than 1000 turns take the core from whoever else needs it.
  bool is_changed = SetIfUnset("GOMP_SPINCOUNT", "1000");
  // TVM's kernels and oneDNN share one team of threads if they ask for the same number.
  is_changed |= SetIfUnset("OMP_NUM_THREADS", std::getenv("TVM_NUM_THREADS"));
  is_changed |= SetIfUnset("TVM_NUM_THREADS", std::getenv("OMP_NUM_THREADS"));
  // Should the start fail, the program goes on as it is.
  if (is_changed) execv("/proc/self/exe", argv);
}

#endif  // COLLAGE_THREAD_VARIABLES_H_
