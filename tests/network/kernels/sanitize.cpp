// Runs every kernel over odd shapes, in memory of exactly the size that library.py gives it, for a
// sanitizer to watch: `make sanitize`. tests/network/kernels/test_*.py compare the numbers; here
// they only have to be finite, nearly the same for every number of threads, and packed without
// loss.
#include <cmath>
#include <cstdio>

#include "cpu.cpp"
#include "lstm_forward.cpp"
#include "lstm_backward.cpp"
#include "char_cnn.cpp"
#include "highway.cpp"
#include "softmax.cpp"

typedef std::vector<float> Floats;

static void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

static uint32_t random_state;

static Floats random_floats(int64_t size, float scale = 1.0f) {
  Floats made(size);
  for (float& value : made) {
    random_state = random_state * 1664525u + 1013904223u;
    value = scale * (static_cast<float>(random_state >> 8) / (1 << 23) - 1.0f);
  }
  return made;
}

static bool all_finite(const Floats& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

// As allocate_packed of library.py.
struct Room {
  std::vector<char> bytes;
  Packed packed;
  Room(int64_t size, Format format)
      : bytes(size * (format == kFloat32 ? 4 : 2)), packed{bytes.data(), format} {}
};

static void round_all(Floats& values) {
  for (float& value : values) {
    const uint32_t bits = static_cast<uint32_t>(round_to_bfloat16(value)) << 16;
    std::memcpy(&value, &bits, 4);
  }
}

struct Shape {
  int64_t input_dim, dim, projection_dim;
};

// Two directions of a layer, forwards and backwards; the result is all that they compute.
static Floats run_layers(const Shape& shape, std::vector<int64_t> lengths, Format format,
                         bool is_indexed, int64_t n_threads) {
  const auto [input_dim, dim, projection_dim] = shape;
  std::sort(lengths.rbegin(), lengths.rend());
  const int64_t n_sentences = static_cast<int64_t>(lengths.size());
  std::vector<int64_t> batch_sizes;
  for (int64_t t = 0; n_sentences > 0 && t < lengths[0]; ++t)
    batch_sizes.push_back(std::count_if(lengths.begin(), lengths.end(),
                                        [t](int64_t length) { return length > t; }));
  int64_t n_tokens = 0;
  for (int64_t length : lengths) n_tokens += length;
  const int64_t n_rows = is_indexed ? n_tokens / 2 + 1 : n_tokens;
  std::vector<int64_t> index(n_tokens);
  std::vector<uint8_t> resets(n_tokens);
  for (int64_t n = 0; n < n_tokens; ++n) index[n] = n * 7 % n_rows, resets[n] = n % 5 == 0;

  struct Direction {
    Floats input_weight, recurrent_weight, bias, projection_weight, rows, from_input, hidden, cell,
        outputs, gates, cells, exposed, previous_hidden, initial_cell, grad_outputs, grad_hidden,
        grad_cell, grad_gates, grad_projected, grad_from_input;
  };
  std::vector<Direction> directions;
  std::vector<Room> rooms;
  std::vector<Pass> passes;
  directions.reserve(2);
  rooms.reserve(10);
  for (int number = 0; number < 2; ++number) {
    directions.push_back({random_floats(4 * dim * input_dim), random_floats(4 * dim * projection_dim),
                          random_floats(4 * dim), random_floats(projection_dim * dim),
                          random_floats(n_rows * input_dim)});
    Direction& d = directions.back();
    if (format == kBfloat16)
      for (Floats* weight : {&d.input_weight, &d.recurrent_weight, &d.projection_weight})
        round_all(*weight);
    Layer layer{input_dim, dim, projection_dim, 3.0f, 3.0f, d.input_weight.data(),
                d.recurrent_weight.data(), d.bias.data(), d.projection_weight.data(),
                {}, {}, {}, {}, {}};
    int64_t sizes[5];
    elmo_packed_sizes(&layer, sizes);
    Packed* parts[] = {&layer.input, &layer.recurrent, &layer.projection,
                       &layer.recurrent_transposed, &layer.projection_transposed};
    for (int part = 0; part < 5; ++part) {
      rooms.emplace_back(sizes[part], format);
      *parts[part] = rooms.back().packed;
    }
    expect(elmo_pack(&layer, 1, n_threads) == kDone, "packed");
    Direction copy = d;
    Layer other = layer;
    for (Floats* weight : {&copy.input_weight, &copy.recurrent_weight, &copy.projection_weight})
      std::fill(weight->begin(), weight->end(), -1.0f);
    other.input_weight = copy.input_weight.data();
    other.recurrent_weight = copy.recurrent_weight.data();
    other.projection_weight = copy.projection_weight.data();
    expect(elmo_unpack(&other, 1, n_threads) == kDone, "unpacked");
    expect(copy.input_weight == d.input_weight && copy.recurrent_weight == d.recurrent_weight &&
               copy.projection_weight == d.projection_weight,
           "weights are the same after packing and unpacking");

    const int64_t gates_dim = layer.gates_dim(), padded_dim = layer.padded_dim();
    d.from_input = Floats(n_rows * gates_dim), d.outputs = Floats(n_tokens * projection_dim);
    d.hidden = random_floats(n_sentences * projection_dim);
    d.cell = d.initial_cell = random_floats(n_sentences * dim);
    d.gates = d.grad_gates = Floats(n_tokens * gates_dim);
    d.cells = d.exposed = Floats(n_tokens * padded_dim);
    d.previous_hidden = d.grad_projected = Floats(n_tokens * projection_dim);
    d.grad_outputs = random_floats(n_tokens * projection_dim);
    d.grad_hidden = random_floats(n_sentences * projection_dim);
    d.grad_cell = random_floats(n_sentences * dim);
    d.grad_from_input = Floats(n_rows * gates_dim);
    passes.push_back({layer, static_cast<int64_t>(batch_sizes.size()), n_sentences, n_rows,
                      batch_sizes.data(), is_indexed ? index.data() : nullptr, resets.data(),
                      d.rows.data(), d.from_input.data(), d.hidden.data(), d.cell.data(),
                      d.outputs.data(), d.gates.data(), d.cells.data(), d.exposed.data(),
                      d.previous_hidden.data(), d.initial_cell.data(), d.grad_outputs.data(),
                      d.grad_hidden.data(), d.grad_cell.data(), d.grad_gates.data(),
                      d.grad_projected.data(), d.grad_from_input.data()});
  }
  expect(elmo_multiply_inputs(passes.data(), 2, n_threads) == kDone, "inputs multiplied");
  expect(elmo_run_forward(passes.data(), 2, n_threads) == kDone, "run forward");
  expect(elmo_run_backward(passes.data(), 2, n_threads) == kDone, "run backward");
  if (is_indexed)
    expect(elmo_gather_gradients(passes.data(), 2, n_threads) == kDone, "gathered");
  Floats all;
  for (const Direction& d : directions)
    for (const Floats* part : {&d.outputs, &d.hidden, &d.cell, &d.grad_hidden, &d.grad_cell,
                               &d.grad_gates, &d.grad_projected, &d.grad_from_input})
      all.insert(all.end(), part->begin(), part->end());
  return all;
}

static Floats run_words(int64_t n_words, int64_t n_characters, int64_t char_dim,
                        const std::vector<std::pair<int64_t, int64_t>>& filters,
                        int64_t n_threads) {
  constexpr int64_t kVectors = 11;
  std::vector<int64_t> char_ids(n_words * n_characters);
  for (size_t n = 0; n < char_ids.size(); ++n) char_ids[n] = static_cast<int64_t>(n * n % kVectors);
  const Floats char_vectors = random_floats(kVectors * char_dim);
  Floats grad_char_vectors(char_vectors.size());
  std::vector<Floats> weights, biases, grads;
  std::vector<Convolution> convolutions;
  int64_t n_filters = 0;
  for (const auto& [width, number] : filters) {
    weights.push_back(random_floats(number * char_dim * width));
    biases.push_back(random_floats(number));
    grads.push_back(Floats(number * char_dim * width));
    convolutions.push_back({width, number, weights.back().data(), biases.back().data(),
                            grads.back().data()});
    n_filters += number;
  }
  Floats maxima(n_words * n_filters);
  const Floats grad_maxima = random_floats(n_words * n_filters);
  std::vector<int32_t> places(n_words * n_filters);
  const Words words{n_words, n_characters, n_filters, char_dim, kVectors,
                    static_cast<int64_t>(convolutions.size()), char_ids.data(),
                    char_vectors.data(), convolutions.data(), maxima.data(), places.data(),
                    grad_maxima.data(), grad_char_vectors.data()};
  expect(elmo_conv_max_pool(&words, 1, n_threads) == kDone, "maxima found");
  expect(elmo_conv_max_pool_backward(&words, 1, n_threads) == kDone, "differentiated");
  maxima.insert(maxima.end(), grad_char_vectors.begin(), grad_char_vectors.end());
  return maxima;
}

static Floats run_highways(int64_t n_rows, int64_t dim, Format format, int64_t n_threads) {
  Floats weight = random_floats(dim * dim), gate_weight = random_floats(dim * dim);
  if (format == kBfloat16) round_all(weight), round_all(gate_weight);
  const Floats bias = random_floats(dim), gate_bias = random_floats(dim);
  const int64_t stride = dim + 16;
  const Floats rows = random_floats(n_rows * stride);
  Floats out(n_rows * dim), copy(dim * dim), gate_copy(dim * dim);
  Highway highway{n_rows, stride, dim, rows.data(), weight.data(), bias.data(), gate_weight.data(),
                  gate_bias.data(), {}, out.data()};
  Room room(elmo_packed_highway_size(&highway), format);
  highway.packed = room.packed;
  expect(elmo_pack_highway(&highway, 1, n_threads) == kDone, "highway packed");
  expect(elmo_run_highway(&highway, 1, n_threads) == kDone, "highway run");
  highway.weight = copy.data(), highway.gate_weight = gate_copy.data();
  expect(elmo_unpack_highway(&highway, 1, n_threads) == kDone, "highway unpacked");
  expect(copy == weight && gate_copy == gate_weight, "a highway's weights are the same");
  return out;
}

static Floats run_softmax(int64_t n_rows, int64_t dim, int64_t n_words, int64_t n_directions,
                          int64_t n_threads) {
  const Floats forward = random_floats(n_rows * dim), backward = random_floats(n_rows * dim);
  const Floats weight = random_floats(n_words * dim), bias = random_floats(n_words);
  Softmax softmax{n_rows, dim, n_words, n_directions, {forward.data(), backward.data()},
                  weight.data(), bias.data(), 2, nullptr};
  Floats sums(elmo_softmax_chunks(&softmax) * (n_directions + 1) * n_rows);
  softmax.log_sums = sums.data();
  expect(elmo_sum_exponentials(&softmax, 1, n_threads) == kDone, "summed");
  return sums;
}

// To 1e-4 of the largest number: sums of several threads are added in another order, and the large
// random weights raise the differences to 1e-5.
static bool are_close(const Floats& values, const Floats& others) {
  float largest = 1.0f;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return std::equal(values.begin(), values.end(), others.begin(), others.end(),
                    [=](float x, float y) { return std::fabs(x - y) <= 1e-4f * largest; });
}

// The same work, on the same numbers, with one to four threads.
template <typename Work>
static void watch(Work work) {
  Floats with_one;
  for (int64_t n_threads = 1; n_threads <= 4; ++n_threads) {
    random_state = 1;
    const Floats found = work(n_threads);
    expect(all_finite(found), "all numbers are finite");
    if (n_threads == 1) with_one = found;
    expect(are_close(found, with_one), "the number of threads does not change the numbers");
  }
}

int main() {
  const std::vector<Shape> shapes = {{1, 1, 1}, {6, 16, 8}, {7, 33, 5}, {37, 70, 33}, {20, 130, 65}};
  const std::vector<std::vector<int64_t>> texts = {{}, {1}, {4}, {5, 3, 3, 1}, {2, 2, 2, 2, 2, 2, 2,
                                                   2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}};
  for (const Format format : {kFloat32, kBfloat16}) {
    for (const Shape& shape : shapes)
      for (const auto& lengths : texts)
        for (const bool is_indexed : {false, true})
          watch([&](int64_t n) { return run_layers(shape, lengths, format, is_indexed, n); });
    for (const int64_t n_rows : {0, 1, 13, 250})
      for (const int64_t dim : {1, 31, 64, 300})
        watch([&](int64_t n) { return run_highways(n_rows, dim, format, n); });
  }
  for (const int64_t n_words : {0, 1, 5, 40})
    watch([&](int64_t n) { return run_words(n_words, 9, 3, {{1, 3}, {4, 40}, {9, 17}}, n); });
  for (const int64_t n_rows : {0, 1, 49})
    for (const int64_t n_words : {3, 256, 4099})
      for (const int64_t n_directions : {1, 2})
        watch([&](int64_t n) { return run_softmax(n_rows, 13, n_words, n_directions, n); });
  std::printf("%d lanes, bfloat16 %s: done\n", kLanes,
              MULTIPLIES_BFLOAT16 ? "multiplied" : "stored");
}
