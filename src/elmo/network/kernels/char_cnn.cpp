// Character convolutions with max-pooling over positions, without a product per window.
//
// There are few distinct characters, so the product of each filter position with each character is
// computed once, into a table; a window is then a sum of `width` rows of the table, a sixteenth of
// the arithmetic. A task is one panel of filters of one convolution, whose part of the table stays
// in the cache while all words are read.
#include "matrix.h"

// The structures and their fields are mirrored in library.py.
struct Convolution {
  int64_t width, n_filters;
  const float *weight, *bias;  // (n_filters, char_dim, width), (n_filters,)
  float* grad_weight;          // like weight; null in the forward pass
};

struct Words {
  int64_t n_words, n_characters, n_filters, char_dim, n_vectors, n_convolutions;
  const int64_t* char_ids;         // (n_words, n_characters)
  const float* char_vectors;       // (n_vectors, char_dim)
  const Convolution* convolutions;
  float* maxima;                  // (n_words, n_filters), the filters of all convolutions
  int32_t* places;                 // like maxima: the window of each maximum; null if not needed
  const float* grad_maxima;       // like maxima
  float* grad_char_vectors;        // like char_vectors
};

struct Task {
  const Convolution* convolution;
  int64_t first, column;  // the panel's first filter in the convolution and among all filters
  int64_t n_columns() const { return std::min<int64_t>(kPanel, convolution->n_filters - first); }
};

// Shared by all tasks: the characters that occur, and each word as offsets into a table of them.
class EncodedWords {
 public:
  explicit EncodedWords(const Words& words)
      : words_(words), offsets_(words.n_words * words.n_characters) {
    std::vector<int64_t> number_of(words.n_vectors, -1);
    last_starts_.reserve(words.n_words);
    for (int64_t word = 0; word < words.n_words; ++word) {
      const int64_t* ids = words.char_ids + word * words.n_characters;
      for (int64_t place = 0; place < words.n_characters; ++place) {
        int64_t& number = number_of[ids[place]];
        if (number < 0) {
          number = static_cast<int64_t>(used_.size());
          used_.push_back(ids[place]);
        }
        offsets_[word * words.n_characters + place] = static_cast<int32_t>(number * kPanel);
      }
      // Windows within the padding at a word's end are all equal: only the first is read.
      int64_t start = words.n_characters - 1;
      while (start > 0 && ids[start - 1] == ids[start]) --start;
      last_starts_.push_back(start);
    }
  }

  int64_t n_used() const { return static_cast<int64_t>(used_.size()); }
  int64_t used(int64_t number) const { return used_[number]; }
  const float* vector(int64_t number) const {
    return words_.char_vectors + used_[number] * words_.char_dim;
  }
  const int32_t* offsets(int64_t word) const {
    return offsets_.data() + word * words_.n_characters;
  }
  int64_t last_window(int64_t word, int64_t width) const {
    return std::min(last_starts_[word], words_.n_characters - width);
  }

 private:
  const Words& words_;
  std::vector<int64_t> used_, last_starts_;
  std::vector<int32_t> offsets_;
};

static std::vector<Task> list_tasks(const Words& words) {
  std::vector<Task> tasks;
  int64_t column = 0;
  for (int64_t i = 0; i < words.n_convolutions; column += words.convolutions[i++].n_filters)
    for (int64_t first = 0; first < words.convolutions[i].n_filters; first += kPanel)
      tasks.push_back({&words.convolutions[i], first, column + first});
  // The widest first, so that no thread is left with a long task at the end.
  std::reverse(tasks.begin(), tasks.end());
  return tasks;
}

// The address of a filter's weights at its position k; they are `width` floats apart.
static const float* filter_at(const Words& words, const Task& task, int64_t f, int64_t k) {
  const Convolution& convolution = *task.convolution;
  return convolution.weight + (task.first + f) * words.char_dim * convolution.width + k;
}

// table (width, n_used, kPanel): the product of each filter position with each character.
static void fill_table(const Words& words, const EncodedWords& encoded, const Task& task, float* table) {
  const Convolution& convolution = *task.convolution;
  Scratch vectors(encoded.n_used() * words.char_dim), weights(words.char_dim * kPanel);
  for (int64_t c = 0; c < encoded.n_used(); ++c)
    std::memcpy(vectors.get() + c * words.char_dim, encoded.vector(c), words.char_dim * 4);
  for (int64_t k = 0; k < convolution.width; ++k) {
    pack({words.char_dim, task.n_columns(), words.char_dim}, as_packed(weights.get()),
         [&](int64_t f) { return filter_at(words, task, f, k); }, convolution.width);
    multiply(encoded.n_used(), vectors.get(), words.char_dim, as_panel(weights.get()),
             words.char_dim, table + k * encoded.n_used() * kPanel, kPanel, false);
  }
}

static void conv_max_pool(const Words& words, const EncodedWords& encoded, const Task& task) {
  const int64_t width = task.convolution->width, step = encoded.n_used() * kPanel;
  Scratch table(width * step), bias(kPanel), sums(kPanel);
  fill_table(words, encoded, task, table.get());
  std::memcpy(bias.get(), task.convolution->bias + task.first, task.n_columns() * 4);
  for (int64_t word = 0; word < words.n_words; ++word) {
    const int32_t* offsets = encoded.offsets(word);
    Vector best[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())};
    Integers places[2] = {};
    for (int64_t window = 0; window <= encoded.last_window(word, width); ++window) {
      Vector sum[2] = {};
      for (int64_t k = 0; k < width; ++k) {
        const float* row = table.get() + k * step + offsets[window + k];
        sum[0] += load(row);
        sum[1] += load(row + kLanes);
      }
      for (int half = 0; half < 2; ++half) {
        // True for a NaN too, which no later sum replaces.
        const Integers is_higher = ~(sum[half] <= best[half]) & (best[half] == best[half]);
        best[half] = is_higher ? sum[half] : best[half];
        places[half] = is_higher ? static_cast<int32_t>(window) - Integers{} : places[half];
      }
    }
    for (int half = 0; half < 2; ++half)
      store(sums.get() + half * kLanes, best[half] + load(bias.get() + half * kLanes));
    const int64_t at = word * words.n_filters + task.column;
    std::memcpy(words.maxima + at, sums.get(), task.n_columns() * 4);
    if (words.places != nullptr) std::memcpy(words.places + at, places, task.n_columns() * 4);
  }
}

// The gradient of a task's filters, and its share of the gradient of the characters that occur,
// `grad_vectors` (n_used, grad_stride).
static void conv_max_pool_backward(const Words& words, const EncodedWords& encoded, const Task& task,
                          float* grad_vectors, int64_t grad_stride) {
  const Convolution& convolution = *task.convolution;
  const int64_t width = convolution.width, n_used = encoded.n_used(), step = n_used * kPanel;
  Scratch grad_table(width * step);
  for (int64_t word = 0; word < words.n_words; ++word) {
    const int64_t at = word * words.n_filters + task.column;
    for (int64_t f = 0; f < task.n_columns(); ++f) {
      const float grad = words.grad_maxima[at + f];
      if (grad == 0.0f) continue;  // many are zero because of the activation
      const int32_t* offsets = encoded.offsets(word) + words.places[at + f];
      for (int64_t k = 0; k < width; ++k) grad_table.get()[k * step + offsets[k] + f] += grad;
    }
  }
  const int64_t char_dim = words.char_dim;
  Scratch vectors(char_dim * n_used), grad_weight(char_dim * kPanel);
  for (int64_t c = 0; c < n_used; ++c)
    for (int64_t e = 0; e < char_dim; ++e) vectors.get()[e * n_used + c] = encoded.vector(c)[e];
  const Packing packing{task.n_columns(), char_dim, kPanel};
  Scratch weights(packing.size());
  const Packed transposed = as_packed(weights.get());
  for (int64_t k = 0; k < width; ++k) {
    multiply(char_dim, vectors.get(), n_used, as_panel(grad_table.get() + k * step), n_used,
             grad_weight.get(), kPanel, false);
    for (int64_t f = 0; f < task.n_columns(); ++f)
      for (int64_t e = 0; e < char_dim; ++e)
        convolution.grad_weight[((task.first + f) * char_dim + e) * width + k] =
            grad_weight.get()[e * kPanel + f];
    const float* filters = filter_at(words, task, 0, k);
    pack(packing, transposed, [&](int64_t e) { return filters + e * width; }, char_dim * width);
    for (int64_t panel = 0; panel < packing.n_panels(); ++panel)
      multiply(n_used, grad_table.get() + k * step, kPanel, transposed.panel(packing, 0, panel),
               task.n_columns(), grad_vectors + panel * kPanel, grad_stride, k > 0);
  }
}

extern "C" {

int64_t elmo_conv_max_pool(const Words* words, int64_t, int64_t n_threads) {
  return guarded([&] {
    const EncodedWords encoded(*words);
    const std::vector<Task> tasks = list_tasks(*words);
    run_in_parallel(static_cast<int64_t>(tasks.size()), n_threads,
                    [&](int64_t number) { conv_max_pool(*words, encoded, tasks[number]); });
  });
}

int64_t elmo_conv_max_pool_backward(const Words* words, int64_t, int64_t n_threads) {
  return guarded([&] {
    const EncodedWords encoded(*words);
    const std::vector<Task> tasks = list_tasks(*words);
    const int64_t n_tasks = static_cast<int64_t>(tasks.size());
    const int64_t stride = round_up(words->char_dim, kPanel), size = encoded.n_used() * stride;
    Scratch shares(n_tasks * size);
    run_in_parallel(n_tasks, n_threads, [&](int64_t number) {
      conv_max_pool_backward(*words, encoded, tasks[number], shares.get() + number * size, stride);
    });
    // Summed in the order of the tasks, so that the result does not depend on the threads.
    for (int64_t number = 0; number < n_tasks; ++number)
      for (int64_t c = 0; c < encoded.n_used(); ++c)
        for (int64_t e = 0; e < words->char_dim; ++e)
          words->grad_char_vectors[encoded.used(c) * words->char_dim + e] +=
              shares.get()[number * size + c * stride + e];
  });
}

}  // extern "C"
