// SPDX-License-Identifier: Apache-2.0
// What the pool uses of OpenMP, made of std::thread, for the thread sanitizer: it does not see how
// libgomp's threads wait for each other, and would take all that they share for races. Here a team
// is started at the begin of a region and joined at its end, which orders what OpenMP orders, and
// nothing more.
// Used by runtime/test_thread_pool.py.
#include <omp.h>

#include <cstdlib>
#include <thread>
#include <vector>

namespace {

struct Place {
  int thread = 0;
  int team_size = 1;
  bool is_in_region = false;
};

thread_local Place place;
thread_local int num_threads_of_regions = 0;  // 0: not set for this thread

int DefaultNumThreads() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  return text != nullptr ? std::atoi(text) : 2;
}

}  // namespace

extern "C" {

// What the compiler makes of `#pragma omp parallel`.
void GOMP_parallel(void (*body)(void*), void* data, unsigned num_threads, unsigned /*flags*/) {
  const Place outer = place;
  int team_size = num_threads == 0 ? omp_get_max_threads() : static_cast<int>(num_threads);
  if (outer.is_in_region) team_size = 1;
  auto run = [=](int thread) {
    place = {thread, team_size, true};
    body(data);
  };
  std::vector<std::thread> workers;
  for (int thread = 1; thread < team_size; ++thread) workers.emplace_back(run, thread);
  run(0);
  for (std::thread& worker : workers) worker.join();
  place = outer;
}

int omp_get_thread_num() { return place.thread; }
int omp_get_num_threads() { return place.team_size; }
int omp_in_parallel() { return place.is_in_region && place.team_size > 1; }
int omp_get_thread_limit() { return 1 << 20; }
omp_proc_bind_t omp_get_proc_bind() { return omp_proc_bind_false; }
void omp_set_num_threads(int num_threads) { num_threads_of_regions = num_threads; }
int omp_get_max_threads() {
  return num_threads_of_regions > 0 ? num_threads_of_regions : DefaultNumThreads();
}
int omp_pause_resource_all(omp_pause_resource_t) { return 0; }

}  // extern "C"
