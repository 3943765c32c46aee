// Normalizers of a softmax over many words, for one direction or two. Logits are computed and
// summed in blocks that stay in the cache: they are never all in memory. The weights are packed
// block by block, so that they are not held twice.
#include <cmath>
#include <limits>

#include "matrix.h"
#include "pointwise.h"

// The structure and its fields are mirrored in library.py.
struct Softmax {
  int64_t n_rows, dim, n_words, n_directions;
  const float* rows[2];                // (n_rows, dim) each
  const float *weight, *bias;          // (n_words, dim), (n_words)
  int64_t n_skipped;                   // number of first words excluded from the combined sum
  float* log_sums;                     // (chunks, n_directions + 1, n_rows)
};

constexpr int64_t kChunkWords = 2048;        // words of a task
constexpr int64_t kBlockPanels = 8;          // panels of words whose logits are computed together
constexpr int64_t kBlockWords = kBlockPanels * kPanel;
constexpr int64_t kBlockRows = 4 * kTileRows;

static inline float highest(const float* values) {
  Vector most = load(values);
  for (int64_t n = kLanes; n < kBlockWords; n += kLanes) {
    const Vector more = load(values + n);
    most = more > most ? more : most;
  }
  float found = most[0];
  for (int i = 1; i < kLanes; ++i) found = most[i] > found || most[i] != most[i] ? most[i] : found;
  return found;
}

static inline float total(Vector sums) {
  float found = 0;
  for (int i = 0; i < kLanes; ++i) found += sums[i];
  return found;
}

// The sums of one chunk of words.
class ChunkSums {
 public:
  ChunkSums(const Softmax& softmax, int64_t chunk)
      : softmax_(softmax), chunk_(chunk),
        packing_{softmax.dim, kBlockWords, softmax.dim}, panels_(packing_.size()),
        bias_(kBlockWords), row_stride_(softmax.dim + kGap), rows_(kBlockRows * row_stride_),
        logits_(2 * kBlockRows * kBlockWords), highest_(2 * softmax.n_rows),
        sums_(3 * softmax.n_rows) {}

  void run() {
    std::fill_n(highest_.get(), 2 * softmax_.n_rows, -std::numeric_limits<float>::infinity());
    const int64_t last = std::min((chunk_ + 1) * kChunkWords, softmax_.n_words);
    for (int64_t word = chunk_ * kChunkWords; word < last; word += kBlockWords) {
      const int64_t n_words = std::min(kBlockWords, last - word);
      take_words(word, n_words);
      for (int64_t row = 0; row < softmax_.n_rows; row += kBlockRows)
        add(word, row, std::min(kBlockRows, softmax_.n_rows - row));
    }
    write();
  }

 private:
  void take_words(int64_t word, int64_t n_words) {
    const auto column = [&](int64_t n) {
      return n < n_words ? softmax_.weight + (word + n) * softmax_.dim : nullptr;
    };
    pack(packing_, as_packed(panels_.get()), column);
    // A padding word has zero probability.
    for (int64_t n = 0; n < kBlockWords; ++n)
      bias_.get()[n] = n < n_words ? softmax_.bias[word + n] : -1e30f;
  }

  void add(int64_t word, int64_t first_row, int64_t n_rows) {
    for (int64_t d = 0; d < softmax_.n_directions; ++d) {
      const float* from = softmax_.rows[d] + first_row * softmax_.dim;
      for (int64_t r = 0; r < n_rows; ++r)
        std::memcpy(rows_.get() + r * row_stride_, from + r * softmax_.dim, softmax_.dim * 4);
      for (int64_t panel = 0; panel < kBlockPanels; ++panel)
        multiply(n_rows, rows_.get(), row_stride_, as_packed(panels_.get()).panel(packing_, 0, panel),
                 softmax_.dim, logits(d, 0) + panel * kPanel, kBlockWords, false);
    }
    for (int64_t r = 0; r < n_rows; ++r) add_row(word, first_row + r, r);
  }

  // The exponential of half a logit serves all sums: its square is the direction's term, and the
  // product of both directions' is the combined term. Logits are relative to the highest so far.
  void add_row(int64_t word, int64_t row, int64_t r) {
    const int64_t n_directions = softmax_.n_directions, n_rows = softmax_.n_rows;
    float shrink[2], high[2];
    for (int64_t d = 0; d < n_directions; ++d) {
      float* values = logits(d, r);
      for (int64_t n = 0; n < kBlockWords; n += kLanes)
        store(values + n, load(values + n) + load(bias_.get() + n));
      float& known = highest_.get()[d * n_rows + row];
      high[d] = std::max(known, highest(values));
      shrink[d] = exponential(clip(splat((known - high[d]) / 2), 87.0f))[0];
      known = high[d];
    }
    const int64_t other = n_directions - 1;
    Vector own[2] = {}, both = {};
    for (int64_t n = 0; n < kBlockWords; n += kLanes) {
      Vector roots[2];
      for (int64_t d = 0; d < n_directions; ++d) {
        roots[d] = exponential(clip((load(logits(d, r) + n) - high[d]) * 0.5f, 87.0f));
        own[d] += roots[d] * roots[d];
      }
      Vector product = roots[0] * roots[other];
      for (int64_t skipped = word + n; skipped < softmax_.n_skipped && skipped < word + n + kLanes;
           ++skipped)
        product[skipped - word - n] = 0.0f;
      both += product;
    }
    float* sums = sums_.get() + row;
    for (int64_t d = 0; d < n_directions; ++d)
      sums[d * n_rows] = sums[d * n_rows] * shrink[d] * shrink[d] + total(own[d]);
    sums[2 * n_rows] = sums[2 * n_rows] * shrink[0] * shrink[other] + total(both);
  }

  void write() const {
    const int64_t n_directions = softmax_.n_directions, n_rows = softmax_.n_rows;
    float* out = softmax_.log_sums + chunk_ * (n_directions + 1) * n_rows;
    for (int64_t row = 0; row < n_rows; ++row) {
      const float* high = highest_.get() + row;
      const float* sums = sums_.get() + row;
      for (int64_t d = 0; d < n_directions; ++d)
        out[d * n_rows + row] = std::log(sums[d * n_rows]) + high[d * n_rows];
      // The combined sum may be zero if the directions predict different words.
      const float least = std::max(sums[2 * n_rows], std::numeric_limits<float>::min());
      const float middle = (high[0] + high[(n_directions - 1) * n_rows]) / 2;
      out[n_directions * n_rows + row] = std::log(least) + middle;
    }
  }

  float* logits(int64_t direction, int64_t r) const {
    return logits_.get() + (direction * kBlockRows + r) * kBlockWords;
  }

  const Softmax& softmax_;
  const int64_t chunk_;
  const Packing packing_;
  Scratch panels_, bias_;
  const int64_t row_stride_;
  Scratch rows_, logits_, highest_, sums_;
};

extern "C" {

int64_t elmo_softmax_chunks(const Softmax* softmax) {
  return (softmax->n_words + kChunkWords - 1) / kChunkWords;
}

int64_t elmo_sum_exponentials(const Softmax* softmax, int64_t, int64_t n_threads) {
  return guarded([&] {
    run_in_parallel(elmo_softmax_chunks(softmax), n_threads,
                    [&](int64_t chunk) { ChunkSums(*softmax, chunk).run(); });
  });
}

}  // extern "C"
