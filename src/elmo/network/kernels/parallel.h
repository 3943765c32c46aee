// Threads, and their scratch memory.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// What a function of the library returns; library.py turns it into an exception.
enum Status : int64_t { kDone, kOutOfMemory, kFailed };

// Run `work` for a C caller and return its status. No exception may cross into C.
template <typename Work>
static int64_t guarded(Work work) {
  try {
    work();
    return kDone;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (...) {
    return kFailed;
  }
}

// Scratch memory, initialized with zeros and aligned to a cache line.
class Scratch {
 public:
  explicit Scratch(int64_t size)
      : floats_(static_cast<float*>(std::aligned_alloc(64, round_up(size * 4 + 64, 64)))) {
    if (floats_ == nullptr) throw std::bad_alloc();
    std::memset(floats_, 0, size * 4);
  }
  ~Scratch() { std::free(floats_); }
  Scratch(const Scratch&) = delete;
  float* get() const { return floats_; }

 private:
  float* floats_;
};

// Run work(number) for every number below n_tasks on up to n_threads threads. Torch's own OpenMP
// threads are used if they can be found: they are awake, and a second pool would compete with them
// for the cores.
template <typename Work>
static void run_in_parallel(int64_t n_tasks, int64_t n_threads, Work work) {
  struct Shared {
    Work& work;
    int64_t n_tasks;
    std::atomic<int64_t> next{0}, status{kDone};
    // Exceptions cannot leave this thread.
    void run() {
      const int64_t found = guarded([&] {
        for (int64_t task; status == kDone && (task = next++) < n_tasks;) work(task);
      });
      if (found != kDone) status = found;
    }
    void report() const {
      if (status == kOutOfMemory) throw std::bad_alloc();
      if (status != kDone) throw std::system_error(std::make_error_code(std::errc::interrupted));
    }
  } shared{work, n_tasks};
  n_threads = std::min(n_threads, n_tasks);
  if (n_threads <= 1) {
    shared.run();
    return shared.report();
  }

  typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
  static const Parallel openmp = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  if (openmp != nullptr) {
    openmp([](void* it) { static_cast<Shared*>(it)->run(); }, &shared,
           static_cast<unsigned>(n_threads), 0);
    return shared.report();
  }
  std::vector<std::thread> others;
  others.reserve(n_threads - 1);
  try {
    for (int64_t i = 1; i < n_threads; ++i) others.emplace_back([&shared] { shared.run(); });
  } catch (...) {  // no more threads, or no memory for one: continue with fewer
  }
  shared.run();
  for (std::thread& other : others) other.join();
  shared.report();
}
