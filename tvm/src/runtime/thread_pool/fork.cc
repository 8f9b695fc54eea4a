// SPDX-License-Identifier: Apache-2.0
// Keeps a forked child from hanging: libgomp's threads do not survive a fork but its record of them
// does, and the child's first parallel region would wait for them for ever.
// So the forking thread's team is dismissed just before; the next region on either side makes a new
// one. This also serves other users of the same libgomp (oneDNN); Python's subprocess pays nothing.
// Test: runtime/test_thread_pool.py.
#include <omp.h>
#include <pthread.h>

namespace {

// Inside a region OpenMP refuses, and rightly: there the child's launches are nested, thus serial.
void DismissTeam() { omp_pause_resource_all(omp_pause_soft); }

__attribute__((constructor)) void InstallForkHandler() {
  pthread_atfork(DismissTeam, nullptr, nullptr);
}

}  // namespace
