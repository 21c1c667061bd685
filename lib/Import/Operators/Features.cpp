//===- Features.cpp - features of rows ------------------------------------===//
//
// TfIdfVectorizer counts n-grams of numbers: at every place where one may begin
// its numbers are compared with those of all n-grams at once. Of domain
// ai.onnx.ml the operators that are a comparison and a gather.
//
//===----------------------------------------------------------------------===//
#include "../Graph/Handlers.h"

#include <cmath>

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

using Integers = SmallVector<int64_t>;

namespace {
/// N-grams of one length that stand in the pool one behind another.
struct Grams {
  int64_t length, count;
  ArrayRef<int64_t> numbers;
};
} // namespace

/// The most comparisons of a row with one number of all n-grams, each of which
/// is an op.
static constexpr int64_t kMaxComparisons = 2048;

/// How often each n-gram is in each row of `x`, [rows, n-grams]. `skipped`: how
/// many numbers are left out between two numbers of an n-gram. Null where none
/// fits in a row.
static Value countGrams(Node &node, Value x, const Grams &grams,
                        int64_t skipped) {
  int64_t rows = shapeOf(x)[0], width = shapeOf(x)[1];
  int64_t step = skipped + 1;
  int64_t starts = width - (grams.length - 1) * step;
  if (starts < 1)
    return {};
  Value isHere;
  for (int64_t k = 0; k < grams.length; ++k) {
    Integers wanted;
    for (int64_t g = 0; g < grams.count; ++g)
      wanted.push_back(grams.numbers[g * grams.length + k]);
    Value numbers =
        node.reshape(node.slice(x, 1, k * step, starts), {rows, starts, 1});
    Value same = node.make<EqualOp>({numbers, node.integers(wanted)});
    isHere = isHere ? node.make<AndOp>({isHere, same}) : same;
  }
  Value ones = node.cast(isHere, node.ops.getF32Type());
  return node.reduce(ones, ReduceKind::Sum, {1}, false);
}

static LogicalResult tfIdfVectorizer(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  for (StringRef name : {"mode", "min_gram_length", "max_gram_length",
                         "max_skip_count", "ngram_counts", "ngram_indexes"})
    node.requireAttribute(name);
  std::string mode = node.text("mode", "TF");
  int64_t shortest = node.integer("min_gram_length", 1);
  int64_t longest = node.integer("max_gram_length", 1);
  int64_t skips = node.integer("max_skip_count", 0);
  Integers begins = node.integerList("ngram_counts").value_or(Integers());
  Integers places = node.integerList("ngram_indexes").value_or(Integers());
  auto pool = node.integerList("pool_int64s");
  auto weights = node.realList("weights");
  Value x = node.in(0);
  if (node.failed)
    return failure();
  if (!pool)
    return node.unsupported("operator TfIdfVectorizer of strings",
                            "numbers are taken (pool_int64s)");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return node.error("mode is \"" + mode + "\"");
  if (!isa<IntegerType>(elementOf(x)) || rankOf(x) < 1 || rankOf(x) > 2)
    return node.error("input must be integers of rank 1 or 2");
  constexpr int64_t kMost = 64;
  if (shortest < 1 || longest < shortest || longest > kMost || skips < 0 ||
      skips > kMost)
    return node.error(
        "min_gram_length, max_gram_length and max_skip_count are " +
        Twine(shortest) + ", " + Twine(longest) + " and " + Twine(skips));
  bool isRow = rankOf(x) == 1;
  int64_t width = shapeOf(x).back(), rows = isRow ? 1 : shapeOf(x)[0];
  x = node.reshape(node.cast(x, node.ops.getI64Type()), {rows, width});
  SmallVector<Value> counts;
  Integers kept; // of the n-grams that are counted, in which column each goes
  int64_t seen = 0, comparisons = 0;
  Type f32 = node.ops.getF32Type();
  for (auto [index, begin] : llvm::enumerate(begins)) {
    int64_t length = int64_t(index) + 1, size = int64_t(pool->size());
    int64_t end = index + 1 < begins.size() ? begins[index + 1] : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % length)
      return node.error("ngram_counts does not fit pool_int64s");
    Grams grams{length, (end - begin) / length,
                ArrayRef(*pool).slice(begin, end - begin)};
    if (seen + grams.count > int64_t(places.size()))
      return node.error("ngram_indexes has fewer entries than n-grams");
    if (grams.count > 0 && length >= shortest && length <= longest) {
      comparisons += length * (length == 1 ? 1 : skips + 1);
      if (comparisons > kMaxComparisons)
        return node.unsupported(
            "that many n-grams of operator TfIdfVectorizer",
            "lengths times skips of up to 2048 in all are taken");
      Value sum = node.splat({rows, grams.count}, 0, f32);
      // A single number has none in between.
      for (int64_t skip = 0; skip <= (length == 1 ? 0 : skips); ++skip)
        if (Value found = countGrams(node, x, grams, skip))
          sum = node.add(sum, found);
      counts.push_back(sum);
      for (int64_t g = 0; g < grams.count; ++g)
        kept.push_back(seen + g);
    }
    seen += grams.count;
  }
  int64_t columns = 0;
  for (int64_t place : places) {
    if (place < 0 || place > (1 << 24))
      return node.error("ngram_indexes has entry " + Twine(place));
    columns = std::max(columns, place + 1);
  }
  if (weights && weights->size() != places.size())
    return node.error("weights and ngram_indexes have different lengths");
  Integers shape = isRow ? Integers{columns} : Integers{rows, columns};
  if (counts.empty())
    return node.set(node.splat(shape, 0, f32));
  Value all = node.concat(counts, 1);
  if (mode == "IDF")
    all = node.make<MinOp>({all, node.scalar(1, f32)});
  if (mode != "TF" && weights) {
    std::vector<float> factors;
    for (int64_t gram : kept)
      factors.push_back(float((*weights)[gram]));
    auto type = RankedTensorType::get({int64_t(factors.size())}, f32);
    all = node.mul(all, node.constant(DenseElementsAttr::get(
                            type, ArrayRef<float>(factors))));
  }
  // Column by column of the result, of which each n-gram has one.
  Integers source(columns, int64_t(kept.size()));
  for (auto [at, gram] : llvm::enumerate(kept)) {
    if (source[places[gram]] != int64_t(kept.size()))
      return node.unsupported("n-grams of operator TfIdfVectorizer with one "
                              "column in common");
    source[places[gram]] = int64_t(at);
  }
  all = node.concat({all, node.splat({rows, 1}, 0, f32)}, 1);
  return node.set(
      node.reshape(node.gather(all, node.integers(source), 1), shape));
}

static LogicalResult binarizer(Node &node) {
  if (failed(node.arity(1, 1)))
    return failure();
  Value x = node.in(0);
  double threshold = node.real("threshold", 0);
  Type element = elementOf(x);
  if (element.isInteger(1))
    return node.error("input must be numbers");
  if (auto type = dyn_cast<IntegerType>(element)) {
    // Integers are above the threshold where they are above what is left of it
    // without a fraction.
    threshold = std::floor(threshold);
    int bits = int(type.getWidth()) - !type.isUnsigned();
    if (!(threshold >= (type.isUnsigned() ? 0 : -std::ldexp(1, bits))))
      return node.set(node.splat(shapeOf(x), 1, element));
    if (threshold >= std::ldexp(1, bits))
      return node.set(node.splat(shapeOf(x), 0, element));
  }
  Value limit = node.scalar(threshold, element);
  return node.set(node.cast(node.make<LessOp>({limit, x}), elementOf(x)));
}

/// Columns of the last dimension.
static LogicalResult arrayFeatureExtractor(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value x = node.in(0), columns = node.in(1);
  if (rankOf(x) < 1 || !isa<IntegerType>(elementOf(columns)))
    return node.error("expected a tensor and indices of its columns");
  int64_t count = typeOf(columns).getNumElements();
  Value found = node.gather(x, node.reshape(columns, {count}), rankOf(x) - 1);
  if (rankOf(x) == 1)
    found = node.reshape(found, {1, count});
  return node.set(found);
}

void kerf::onnx_import::addFeatures(HandlerTable &table) {
  table.add("TfIdfVectorizer", 9, tfIdfVectorizer);
}

void kerf::onnx_import::addMachineLearning(HandlerTable &table) {
  table.add("Binarizer", 1, binarizer);
  table.add("ArrayFeatureExtractor", 1, arrayFeatureExtractor);
}
