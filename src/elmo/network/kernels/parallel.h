// Threads, and the memory that each of them works in.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Memory for one thread's work, zero at first, aligned to a cache line.
class Scratch {
 public:
  explicit Scratch(int64_t size)
      : floats_(static_cast<float*>(std::aligned_alloc(64, round_up(size * 4 + 64, 64)))) {
    std::memset(floats_, 0, size * 4);
  }
  ~Scratch() { std::free(floats_); }
  Scratch(const Scratch&) = delete;
  float* get() const { return floats_; }

 private:
  float* floats_;
};

// Run work(number) for every number below n_tasks on up to n_threads threads. Torch's own OpenMP
// threads are taken where they can be found: they are awake, and a second pool would compete with
// them for the cores.
template <typename Work>
static void run_in_parallel(int64_t n_tasks, int64_t n_threads, Work work) {
  struct Shared {
    Work& work;
    int64_t n_tasks;
    std::atomic<int64_t> next{0};
    void run() {
      for (int64_t task; (task = next++) < n_tasks;) work(task);
    }
  } shared{work, n_tasks};
  n_threads = std::min(n_threads, n_tasks);
  if (n_threads <= 1) return shared.run();

  typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
  static const Parallel openmp = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  if (openmp != nullptr)
    return openmp([](void* it) { static_cast<Shared*>(it)->run(); }, &shared,
                  static_cast<unsigned>(n_threads), 0);
  std::vector<std::thread> others;
  for (int64_t i = 1; i < n_threads; ++i) others.emplace_back([&shared] { shared.run(); });
  shared.run();
  for (std::thread& other : others) other.join();
}
