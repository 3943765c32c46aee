// Matrix products over pre-packed weights, and threads: what every kernel here is made of.
//
// A product is rows (M, K) times weights (K, N). The weights are packed once into panels of kPanel
// columns, so that the innermost loop reads them in one straight line; the rows stay as they are.
// A tile of up to kTileRows rows times one panel is held in registers.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#if defined(LANES)
constexpr int kLanes = LANES;  // for tests: the other targets' layouts run on every machine
#elif defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
constexpr int kPanel = 2 * kLanes;
// Two accumulators a row, two registers of weights, one of the row: 6 rows fill 16 registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
// A block of one panel, kDepth x kPanel floats, takes half of a 32 KB first-level cache.
constexpr int64_t kDepth = 256 * 8 / kLanes;
// Our own matrices' rows stand a little more than a power of two apart, so that a tile's rows do
// not compete for the same cache set.
constexpr int64_t kGap = 16;

typedef float Vector __attribute__((vector_size(kLanes * 4)));
typedef float Unaligned __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(kLanes * 4)));

static inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
static inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }
static inline Vector splat(float value) { return value - Vector{}; }

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

// Where element (k, n) of packed weights stands: blocks of `block_depth` rows, in them the panels.
// `block_depth` >= K gives whole panels one after the other.
struct Packing {
  int64_t depth, n_columns, block_depth;
  int64_t n_panels() const { return (n_columns + kPanel - 1) / kPanel; }
  int64_t size() const { return depth * n_panels() * kPanel; }
  int64_t depth_of(int64_t block) const {
    return std::min(block_depth, depth - block * block_depth);
  }
  int64_t offset(int64_t block, int64_t panel) const {
    return (block * block_depth * n_panels() + panel * depth_of(block)) * kPanel;
  }
};

// Pack weights whose column n stands in memory as column(n)[k * stride]; a null column is zero.
template <typename Column>
static void pack(const Packing& packing, float* packed, Column column, int64_t stride = 1) {
  for (int64_t panel = 0; panel < packing.n_panels(); ++panel) {
    const float* columns[kPanel];
    for (int64_t n = 0; n < kPanel; ++n)
      columns[n] = panel * kPanel + n < packing.n_columns ? column(panel * kPanel + n) : nullptr;
    for (int64_t k = 0; k < packing.depth; ++k) {
      const int64_t block = k / packing.block_depth;
      float* to = packed + packing.offset(block, panel) + (k - block * packing.block_depth) * kPanel;
      for (int64_t n = 0; n < kPanel; ++n)
        to[n] = columns[n] == nullptr ? 0.0f : columns[n][k * stride];
    }
  }
}

// The same of weights whose row k stands in memory as row(k)[n]; a null row is zero.
template <typename Row>
static void pack_rows(const Packing& packing, float* packed, Row row) {
  for (int64_t k = 0; k < packing.depth; ++k) {
    const float* from = row(k);
    const int64_t block = k / packing.block_depth;
    for (int64_t panel = 0; panel < packing.n_panels(); ++panel) {
      float* to = packed + packing.offset(block, panel) + (k - block * packing.block_depth) * kPanel;
      const int64_t n_left = std::min<int64_t>(kPanel, packing.n_columns - panel * kPanel);
      std::memset(to, 0, kPanel * 4);
      if (from != nullptr) std::memcpy(to, from + panel * kPanel, n_left * 4);
    }
  }
}

// out (kRows, kPanel) = or += rows (kRows, depth) x weights (depth, kPanel), while `next` is
// fetched from memory, one cache line every few steps.
// Few rows leave few accumulators, so the depth is dealt out over `kWays` sets of them: the
// processor needs about eight independent sums to be busy.
template <int kRows>
static void multiply_tile(const float* rows, int64_t row_stride, const float* weights,
                                 int64_t depth, float* out, int64_t out_stride, bool adds,
                                 const char* next, int64_t next_step) {
  constexpr int kWays = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  Vector sums[kWays][kRows][2] = {};
  int64_t k = 0;
  for (; k + kWays <= depth; k += kWays) {
#pragma GCC unroll 4
    for (int way = 0; way < kWays; ++way) {
      __builtin_prefetch(next + (k + way) * next_step, 0, 2);
      const Vector left = load(weights + (k + way) * kPanel);
      const Vector right = load(weights + (k + way) * kPanel + kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        const Vector value = splat(rows[row * row_stride + k + way]);
        sums[way][row][0] += value * left;
        sums[way][row][1] += value * right;
      }
    }
  }
  for (; k < depth; ++k)
    for (int row = 0; row < kRows; ++row)
      for (int half = 0; half < 2; ++half)
        sums[0][row][half] +=
            splat(rows[row * row_stride + k]) * load(weights + k * kPanel + half * kLanes);
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* to = out + row * out_stride + half * kLanes;
      Vector sum = sums[0][row][half];
      for (int way = 1; way < kWays; ++way) sum += sums[way][row][half];
      store(to, adds ? load(to) + sum : sum);
    }
}

typedef void (*TileProduct)(const float*, int64_t, const float*, int64_t, float*, int64_t, bool,
                            const char*, int64_t);

constexpr TileProduct kTileProducts[] = {
    nullptr,         multiply_tile<1>, multiply_tile<2>,  multiply_tile<3>,  multiply_tile<4>,
    multiply_tile<5>, multiply_tile<6>,
#if defined(__AVX512F__) || defined(__aarch64__)
    multiply_tile<7>, multiply_tile<8>, multiply_tile<9>, multiply_tile<10>, multiply_tile<11>,
    multiply_tile<12>,
#endif
};

// out (n_rows, kPanel) = or += rows (n_rows, depth) x one panel. The rows are dealt evenly to
// tiles; meanwhile the weights that follow in memory, the next block's, are fetched.
static inline void multiply(int64_t n_rows, const float* rows, int64_t row_stride,
                            const float* panel, int64_t depth, float* out, int64_t out_stride,
                            bool adds) {
  const int64_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  if (n_tiles == 0) return;
  for (int64_t first = 0; first < depth; first += kDepth, adds = true) {
    const int64_t block_depth = std::min(kDepth, depth - first);
    const float* weights = panel + first * kPanel;
    const char* next = reinterpret_cast<const char*>(weights + block_depth * kPanel);
    const int64_t next_step = kPanel * 4 / n_tiles;
    for (int64_t tile = 0, row = 0; tile < n_tiles; ++tile) {
      const int64_t end = (tile + 1) * n_rows / n_tiles;
      kTileProducts[end - row](rows + row * row_stride + first, row_stride, weights, block_depth,
                               out + row * out_stride, out_stride, adds,
                               next + tile * block_depth * next_step, next_step);
      row = end;
    }
  }
}

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
