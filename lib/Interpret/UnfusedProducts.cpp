//===- UnfusedProducts.cpp - products and convolutions in blocks ----------===//
//
// A matrix product in blocks of rows, of columns and of the summed dimension: a
// block of either operand is copied so that the inner loop reads it in order. A
// convolution is the product of its windows, a row for each position, with its
// weights; its gradients are the same products with exchanged operands.
//
// Here zeros of padding times infinite weights give NaN, where the formula has
// no such term: convolutions with such weights are left to the interpreter.
//
//===----------------------------------------------------------------------===//
#include "Unfused.h"

#include "kerf/NN/NN.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

/// Element (i, j) is at data[i * row + j * column].
struct Matrix {
  const double *data;
  int64_t row, column;
};

using Lanes = double __attribute__((vector_size(64)));
constexpr int64_t kTileRows = 6, kTileColumns = 8;
constexpr int64_t kBlockRows = 20 * kTileRows, kBlockColumns = 512,
                  kBlockDepth = 256;

/// c[6, 8] += a[6, depth] b[depth, 8], a and b in order.
__attribute__((always_inline)) inline void
tileBody(const double *a, const double *b, int64_t depth, double *c) {
  Lanes sums[kTileRows];
  for (int r = 0; r < kTileRows; ++r)
    std::memcpy(&sums[r], c + r * kTileColumns, sizeof(Lanes));
  for (int64_t k = 0; k < depth; ++k) {
    Lanes row;
    std::memcpy(&row, b + k * kTileColumns, sizeof(Lanes));
    for (int r = 0; r < kTileRows; ++r)
      sums[r] += a[k * kTileRows + r] * row;
  }
  for (int r = 0; r < kTileRows; ++r)
    std::memcpy(c + r * kTileColumns, &sums[r], sizeof(Lanes));
}

using Tile = void (*)(const double *, const double *, int64_t, double *);

void tilePlain(const double *a, const double *b, int64_t depth, double *c) {
  tileBody(a, b, depth, c);
}
#ifdef __x86_64__
__attribute__((target("avx2,fma"))) void
tileAvx2(const double *a, const double *b, int64_t depth, double *c) {
  tileBody(a, b, depth, c);
}
__attribute__((target("avx512f,fma"))) void
tileAvx512(const double *a, const double *b, int64_t depth, double *c) {
  tileBody(a, b, depth, c);
}
Tile bestTile() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return tileAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return tileAvx2;
  return tilePlain;
}
#else
Tile bestTile() { return tilePlain; }
#endif

/// Copies m(rows, depth) in strips of `width` rows, zeros past the end:
/// to[strip][k][row].
void copyStrips(Matrix m, int64_t rows, int64_t depth, int64_t width,
                std::vector<double> &to) {
  to.assign((rows + width - 1) / width * width * depth, 0);
  for (int64_t i = 0; i < rows; ++i) {
    double *strip = &to[i / width * width * depth + i % width];
    const double *from = m.data + i * m.row;
    for (int64_t k = 0; k < depth; ++k)
      strip[k * width] = from[k * m.column];
  }
}

/// c[rows, columns] += a[rows, depth] b[depth, columns]; rows of `c` are `ldc`
/// apart. On one thread.
class Multiplier {
public:
  void operator()(Matrix a, Matrix b, int64_t rows, int64_t columns,
                  int64_t depth, double *c, int64_t ldc) {
    for (int64_t k = 0; k < depth; k += kBlockDepth)
      for (int64_t j = 0; j < columns; j += kBlockColumns)
        for (int64_t i = 0; i < rows; i += kBlockRows)
          block({a.data + i * a.row + k * a.column, a.row, a.column},
                {b.data + k * b.row + j * b.column, b.row, b.column},
                std::min(kBlockRows, rows - i),
                std::min(kBlockColumns, columns - j),
                std::min(kBlockDepth, depth - k), c + i * ldc + j, ldc, i == 0);
  }

private:
  void block(Matrix a, Matrix b, int64_t rows, int64_t columns, int64_t depth,
             double *c, int64_t ldc, bool newColumns) {
    if (newColumns)
      copyStrips({b.data, b.column, b.row}, columns, depth, kTileColumns,
                 right);
    copyStrips(a, rows, depth, kTileRows, left);
    double part[kTileRows * kTileColumns];
    for (int64_t j = 0; j < columns; j += kTileColumns)
      for (int64_t i = 0; i < rows; i += kTileRows) {
        int64_t high = std::min(kTileRows, rows - i);
        int64_t wide = std::min(kTileColumns, columns - j);
        for (int64_t r = 0; r < high; ++r)
          std::copy_n(c + (i + r) * ldc + j, wide, part + r * kTileColumns);
        tile(&left[i * depth], &right[j * depth], depth, part);
        for (int64_t r = 0; r < high; ++r)
          std::copy_n(part + r * kTileColumns, wide, c + (i + r) * ldc + j);
      }
  }

  Tile tile = bestTile();
  std::vector<double> left, right;
};

/// Where batch number `batch` of `shape` (without its last two dimensions)
/// begins in an operand that is broadcast to `shape`.
int64_t batchOffset(const Tensor &operand, ArrayRef<int64_t> shape,
                    int64_t batch) {
  int64_t stride = operand.shape[operand.shape.size() - 1] *
                   operand.shape[operand.shape.size() - 2];
  int64_t offset = 0;
  for (size_t back = 3; back <= shape.size(); ++back) {
    int64_t size = shape[shape.size() - back];
    int64_t at = batch % size;
    batch /= size;
    if (back > operand.shape.size())
      continue;
    int64_t own = operand.shape[operand.shape.size() - back];
    offset += own == 1 ? 0 : at * stride;
    stride *= own;
  }
  return offset;
}

Tensor matmul(nn::MatmulOp op, Operands operands, unsigned threads) {
  const Tensor &lhs = *operands[0], &rhs = *operands[1];
  Tensor result(resultShape(op));
  if (result.data.empty())
    return result;
  size_t rank = result.shape.size();
  int64_t rows = result.shape[rank - 2], columns = result.shape[rank - 1];
  int64_t depth = lhs.shape[lhs.shape.size() - (op.getTransposeLhs() ? 2 : 1)];
  int64_t rowParts = (rows + kBlockRows - 1) / kBlockRows;
  int64_t columnParts = (columns + kBlockColumns - 1) / kBlockColumns;
  int64_t batches = static_cast<int64_t>(result.data.size()) / (rows * columns);
  int64_t grain = std::max<int64_t>(
      1, 1000000 / std::max<int64_t>(1, std::min(rows, kBlockRows) *
                                            std::min(columns, kBlockColumns) *
                                            depth));
  parallelFor(batches * rowParts * columnParts, grain, threads,
              [&](int64_t begin, int64_t end) {
                Multiplier multiply;
                for (int64_t part = begin; part < end; ++part) {
                  int64_t batch = part / (rowParts * columnParts);
                  int64_t i = part / columnParts % rowParts * kBlockRows;
                  int64_t j = part % columnParts * kBlockColumns;
                  Matrix a{&lhs.data[0] + batchOffset(lhs, result.shape, batch),
                           depth, 1};
                  if (op.getTransposeLhs())
                    a = {a.data, 1, rows};
                  Matrix b{&rhs.data[0] + batchOffset(rhs, result.shape, batch),
                           columns, 1};
                  if (op.getTransposeRhs())
                    b = {b.data, 1, depth};
                  multiply({a.data + i * a.row, a.row, a.column},
                           {b.data + j * b.column, b.row, b.column},
                           std::min(kBlockRows, rows - i),
                           std::min(kBlockColumns, columns - j), depth,
                           &result.data[(batch * rows + i) * columns + j],
                           columns);
                }
              });
  return result;
}

/// The windows of a convolution: sizes, and rows of the matrix of windows
/// [positions of an image, channels of a group x taps], in the order of the
/// weights.
struct Windows {
  Index image, weights; ///< shapes; NHWC and OIHW
  Index places;         ///< spatial shape of the result
  ArrayRef<int64_t> strides, dilations, low;
  int64_t groups, positions = 1, taps = 1;

  template <typename Op>
  Windows(Op op, ArrayRef<int64_t> image, ArrayRef<int64_t> weights,
          ArrayRef<int64_t> result)
      : image(image), weights(weights), places(result.drop_front().drop_back()),
        strides(op.getStrides()), dilations(op.getDilations()),
        low(op.getLow()), groups(static_cast<int64_t>(op.getGroups())) {
    for (int64_t size : places)
      positions *= size;
    for (int64_t size : weights.drop_front(2))
      taps *= size;
  }

  int64_t images() const { return image[0]; }
  int64_t channels() const { return weights[1]; }
  int64_t outChannels() const { return weights[0] / groups; }
  int64_t width() const { return channels() * taps; }

  /// Calls visit(row, tap, offset of the image's first channel of the group)
  /// for each tap inside the image, of positions [begin, end).
  template <typename Visit>
  void forEach(int64_t number, int64_t group, int64_t begin, int64_t end,
               Visit visit) const {
    size_t rank = places.size();
    for (int64_t position = begin; position < end; ++position)
      for (int64_t tap = 0; tap < taps; ++tap) {
        int64_t offset = 0, stride = image.back(), p = position, t = tap;
        bool inside = true;
        for (size_t d = rank; d-- > 0;) {
          int64_t at = p % places[d] * strides[d] +
                       t % weights[d + 2] * dilations[d] - low[d];
          p /= places[d];
          t /= weights[d + 2];
          inside &= at >= 0 && at < image[d + 1];
          offset += at * stride;
          stride *= image[d + 1];
        }
        if (inside)
          visit(position - begin, tap,
                number * stride + offset + group * channels());
      }
  }
  void gather(const Tensor &x, int64_t number, int64_t group, int64_t begin,
              int64_t end, std::vector<double> &rows) const {
    rows.assign((end - begin) * width(), 0);
    forEach(number, group, begin, end,
            [&](int64_t row, int64_t tap, int64_t from) {
              double *to = &rows[row * width() + tap];
              for (int64_t c = 0; c < channels(); ++c)
                to[c * taps] = x.data[from + c];
            });
  }
  void scatter(const std::vector<double> &rows, int64_t number, int64_t group,
               int64_t begin, int64_t end, Tensor &x) const {
    forEach(number, group, begin, end,
            [&](int64_t row, int64_t tap, int64_t to) {
              const double *from = &rows[row * width() + tap];
              for (int64_t c = 0; c < channels(); ++c)
                x.data[to + c] += from[c * taps];
            });
  }
};

Tensor conv(nn::ConvOp op, Operands operands, unsigned threads) {
  const Tensor &x = *operands[0], &w = *operands[1];
  Tensor result(resultShape(op));
  Windows windows(op, x.shape, w.shape, result.shape);
  int64_t parts = (windows.positions + kBlockRows - 1) / kBlockRows;
  int64_t out = windows.outChannels(), all = w.shape[0];
  parallelFor(
      windows.images() * windows.groups * parts, 1, threads,
      [&](int64_t begin, int64_t end) {
        Multiplier multiply;
        std::vector<double> rows;
        for (int64_t part = begin; part < end; ++part) {
          int64_t number = part / (parts * windows.groups);
          int64_t group = part / parts % windows.groups;
          int64_t first = part % parts * kBlockRows;
          int64_t last = std::min(first + kBlockRows, windows.positions);
          windows.gather(x, number, group, first, last, rows);
          multiply({rows.data(), windows.width(), 1},
                   {&w.data[group * out * windows.width()], 1, windows.width()},
                   last - first, out, windows.width(),
                   &result.data[(number * windows.positions + first) * all +
                                group * out],
                   all);
        }
      });
  return result;
}

Tensor convInputGradient(nn::ConvInputGradientOp op, Operands operands,
                         unsigned threads) {
  const Tensor &dy = *operands[0], &w = *operands[1];
  Tensor result(resultShape(op));
  Windows windows(op, result.shape, w.shape, dy.shape);
  int64_t out = windows.outChannels(), all = w.shape[0];
  parallelFor(
      windows.images() * windows.groups, 1, threads,
      [&](int64_t begin, int64_t end) {
        Multiplier multiply;
        std::vector<double> rows;
        for (int64_t part = begin; part < end; ++part) {
          int64_t number = part / windows.groups;
          int64_t group = part % windows.groups;
          for (int64_t first = 0; first < windows.positions;
               first += kBlockRows) {
            int64_t last = std::min(first + kBlockRows, windows.positions);
            rows.assign((last - first) * windows.width(), 0);
            multiply(
                {&dy.data[(number * windows.positions + first) * all +
                          group * out],
                 all, 1},
                {&w.data[group * out * windows.width()], windows.width(), 1},
                last - first, windows.width(), out, rows.data(),
                windows.width());
            windows.scatter(rows, number, group, first, last, result);
          }
        }
      });
  return result;
}

Tensor convWeightGradient(nn::ConvWeightGradientOp op, Operands operands,
                          unsigned threads) {
  const Tensor &x = *operands[0], &dy = *operands[1];
  Tensor result(resultShape(op));
  Windows windows(op, x.shape, result.shape, dy.shape);
  int64_t out = windows.outChannels(), all = result.shape[0];
  constexpr int64_t kOut = 32;
  int64_t parts = (out + kOut - 1) / kOut;
  parallelFor(
      windows.groups * parts, 1, threads, [&](int64_t begin, int64_t end) {
        Multiplier multiply;
        std::vector<double> rows;
        for (int64_t part = begin; part < end; ++part) {
          int64_t group = part / parts, from = part % parts * kOut;
          double *to = &result.data[(group * out + from) * windows.width()];
          for (int64_t number = 0; number < windows.images(); ++number)
            for (int64_t first = 0; first < windows.positions;
                 first += kBlockDepth) {
              int64_t last = std::min(first + kBlockDepth, windows.positions);
              windows.gather(x, number, group, first, last, rows);
              multiply({&dy.data[(number * windows.positions + first) * all +
                                 group * out + from],
                        1, all},
                       {rows.data(), windows.width(), 1},
                       std::min(kOut, out - from), windows.width(),
                       last - first, to, windows.width());
            }
        }
      });
  return result;
}

bool isFinite(const Tensor &tensor) {
  return llvm::all_of(tensor.data, [](double x) { return std::isfinite(x); });
}

} // namespace

MaybeTensor kerf::interpret::evaluateProduct(Operation *op, Operands operands,
                                             unsigned threads) {
  if (auto it = dyn_cast<nn::MatmulOp>(op))
    return matmul(it, operands, threads);
  if (!op->getNumResults() || llvm::is_contained(resultShape(op), 0))
    return std::nullopt;
  if (auto it = dyn_cast<nn::ConvOp>(op); it && isFinite(*operands[1]))
    return conv(it, operands, threads);
  if (auto it = dyn_cast<nn::ConvInputGradientOp>(op))
    return convInputGradient(it, operands, threads);
  if (auto it = dyn_cast<nn::ConvWeightGradientOp>(op);
      it && isFinite(*operands[1]))
    return convWeightGradient(it, operands, threads);
  return std::nullopt;
}
