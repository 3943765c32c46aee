// Matrix products over pre-packed weights: what every kernel here is made of.
//
// A product is rows (M, K) times weights (K, N). The weights are packed once into panels of kPanel
// columns, so that the innermost loop reads them in one straight line; the rows stay as they are.
// A tile of up to kTileRows rows times one panel is held in registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "parallel.h"

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


// How packed weights are stored. bfloat16 is computed with as float32, but read with half of the
// memory's effort, which is what few rows wait for. (int8 was no faster still: it took longer to
// take apart than to read.)
enum Format : int64_t { kFloat32, kBfloat16 };

// One panel of a block. For bfloat16 a 32-bit lane holds the left and the right column, so that a
// shift and a mask take them apart.
struct Panel {
  const char* stored;
  Format format;
  int64_t row_bytes() const { return format == kFloat32 ? 4 * kPanel : 2 * kPanel; }
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

// Packed weights; mirrored in library.py. Without `stored` they are not wanted.
struct Packed {
  char* stored;
  Format format;

  bool is_wanted() const { return stored != nullptr; }
  Panel panel(const Packing& packing, int64_t block, int64_t number) const {
    const int64_t n_bytes = format == kFloat32 ? 4 : 2;
    return {stored + packing.offset(block, number) * n_bytes, format};
  }
};
static inline Packed as_packed(float* weights) {
  return {reinterpret_cast<char*>(weights), kFloat32};
}
static inline Panel as_panel(const float* weights) {
  return {reinterpret_cast<const char*>(weights), kFloat32};
}

static inline uint16_t round_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Store the k-th row's weight of a column of a panel.
static inline void store_weight(const Panel& panel, int64_t k, int64_t column, float value) {
  char* row = const_cast<char*>(panel.stored) + k * panel.row_bytes();
  if (panel.format == kFloat32)
    reinterpret_cast<float*>(row)[column] = value;
  else
    reinterpret_cast<uint16_t*>(row)[2 * (column % kLanes) + column / kLanes] =
        round_to_bfloat16(value);
}

// Pack weights whose column n stands in memory as column(n)[k * stride]; a null column is zero.
template <typename Column>
static void pack(const Packing& packing, const Packed& packed, Column column, int64_t stride = 1,
                 int64_t n_threads = 1) {
  constexpr int64_t kAtOnce = 64;  // rows: read along the columns, written while in the cache
  run_in_parallel(packing.n_panels(), n_threads, [&](int64_t number) {
    for (int64_t first = 0; first < packing.depth; first += kAtOnce) {
      const int64_t block = first / packing.block_depth, last = packing.depth;
      const Panel panel = packed.panel(packing, block, number);
      for (int64_t n = 0; n < kPanel; ++n) {
        const int64_t place = number * kPanel + n;
        const float* from = place < packing.n_columns ? column(place) : nullptr;
        for (int64_t k = first; k < std::min(first + kAtOnce, last); ++k)
          store_weight(panel, k - block * packing.block_depth, n,
                       from == nullptr ? 0.0f : from[k * stride]);
      }
    }
  });
}

// The same of weights whose row k stands in memory as row(k)[n]; float32 only.
template <typename Row>
static void pack_rows(const Packing& packing, const Packed& packed, Row row) {
  for (int64_t k = 0; k < packing.depth; ++k) {
    const float* from = row(k);
    const int64_t block = k / packing.block_depth;
    for (int64_t panel = 0; panel < packing.n_panels(); ++panel) {
      float* to = reinterpret_cast<float*>(packed.stored) + packing.offset(block, panel) +
                  (k - block * packing.block_depth) * kPanel;
      const int64_t n_left = std::min<int64_t>(kPanel, packing.n_columns - panel * kPanel);
      std::memset(to, 0, kPanel * 4);
      if (from != nullptr) std::memcpy(to, from + panel * kPanel, n_left * 4);
    }
  }
}

// The weights of row k of a panel, left and right column vector.
struct Pair {
  Vector left, right;
};

template <Format kFormat>
static inline Pair load_weights(const char* stored, int64_t k) {
  const float* lanes = reinterpret_cast<const float*>(stored);
  if constexpr (kFormat == kFloat32)
    return {load(lanes + k * kPanel), load(lanes + k * kPanel + kLanes)};
  const Integers bits = (Integers)load(lanes + k * kLanes);
  return {(Vector)(bits << 16), (Vector)(bits & static_cast<int32_t>(0xffff0000))};
}

// What a tile's product reads and writes.
struct Tile {
  const float* rows;
  int64_t row_stride;
  Panel panel;
  int64_t depth;
  float* out;
  int64_t out_stride;
  bool adds;
  const char* next;  // weights to fetch meanwhile, `next_step` bytes for every row of weights
  int64_t next_step;
};

// out (kRows, kPanel) = or += rows (kRows, depth) x panel (depth, kPanel).
// Few rows leave few accumulators, so the depth is dealt out over `kWays` sets of them: the
// processor needs about eight independent sums to be busy.
template <int kRows, Format kFormat>
static void multiply_tile(const Tile& tile) {
  constexpr int kWays = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  const int64_t row_stride = tile.row_stride, depth = tile.depth, next_step = tile.next_step;
  const float* rows = tile.rows;
  const char *stored = tile.panel.stored, *next = tile.next;
  Vector sums[kWays][kRows][2] = {};
  int64_t k = 0;
  for (; k + kWays <= depth; k += kWays) {
#pragma GCC unroll 4
    for (int way = 0; way < kWays; ++way) {
      __builtin_prefetch(next + (k + way) * next_step, 0, 2);
      const Pair weights = load_weights<kFormat>(stored, k + way);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        const Vector value = splat(rows[row * row_stride + k + way]);
        sums[way][row][0] += value * weights.left;
        sums[way][row][1] += value * weights.right;
      }
    }
  }
  for (; k < depth; ++k) {
    const Pair weights = load_weights<kFormat>(stored, k);
    for (int row = 0; row < kRows; ++row) {
      sums[0][row][0] += splat(rows[row * row_stride + k]) * weights.left;
      sums[0][row][1] += splat(rows[row * row_stride + k]) * weights.right;
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* to = tile.out + row * tile.out_stride + half * kLanes;
      Vector sum = sums[0][row][half];
      for (int way = 1; way < kWays; ++way) sum += sums[way][row][half];
      store(to, tile.adds ? load(to) + sum : sum);
    }
}

typedef void (*TileProduct)(const Tile&);

// multiply_tile for 0, 1, ... kTileRows rows.
template <Format kFormat, int... kRows>
static TileProduct tile_product(int64_t n_rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileProduct products[] = {multiply_tile<kRows + 1, kFormat>...};
  return products[n_rows - 1];
}
template <Format kFormat>
static TileProduct tile_product(int64_t n_rows) {
  return tile_product<kFormat>(n_rows, std::make_integer_sequence<int, kTileRows>());
}

static void expand(const Panel& panel, int64_t depth, float* weights) {
  for (int64_t k = 0; k < depth; ++k, weights += kPanel) {
    const Pair row = load_weights<kBfloat16>(panel.stored, k);
    store(weights, row.left);
    store(weights + kLanes, row.right);
  }
}

// out (n_rows, kPanel) = or += rows (n_rows, depth) x one panel. The rows are dealt evenly to
// tiles; meanwhile the weights that follow in memory, the next block's, are fetched.
static void multiply(int64_t n_rows, const float* rows, int64_t row_stride, Panel panel,
                     int64_t depth, float* out, int64_t out_stride, bool adds) {
  const int64_t n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  if (n_tiles == 0) return;
  for (int64_t first = 0; first < depth; first += kDepth, adds = true) {
    const int64_t block_depth = std::min(kDepth, depth - first);
    Tile tile{rows + first, row_stride, panel, block_depth, out, out_stride, adds,
              panel.stored + block_depth * panel.row_bytes(), panel.row_bytes() / n_tiles};
    panel.stored = tile.next;
    if (panel.format == kBfloat16 && n_tiles == 1) {
      tile_product<kBfloat16>(n_rows)(tile);
      continue;
    }
    alignas(64) float expanded[kDepth * kPanel];
    if (panel.format == kBfloat16) {  // once for all tiles
      expand(tile.panel, block_depth, expanded);
      tile.panel = as_panel(expanded);
    }
    for (int64_t number = 0, row = 0; number < n_tiles; ++number) {
      const int64_t end = (number + 1) * n_rows / n_tiles;
      tile_product<kFloat32>(end - row)(tile);
      tile.rows += (end - row) * row_stride;
      tile.out += (end - row) * out_stride;
      tile.next += block_depth * tile.next_step;
      row = end;
    }
  }
}
