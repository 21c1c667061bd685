#include "Reference.h"

#include "kerf/NN/NN.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>

using namespace mlir;
using namespace kerf;

namespace kerf::reference {

using Position = std::vector<int64_t>;

static int64_t flatten(const Position &at, const std::vector<int64_t> &shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    flat = flat * shape[d] + at[d];
  return flat;
}

static Position unflatten(int64_t flat, const std::vector<int64_t> &shape) {
  Position at(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = flat % shape[d];
    flat /= shape[d];
  }
  return at;
}

static double read(const Tensor &t, const Position &at) {
  return t.data[flatten(at, t.shape)];
}

/// Right-aligned broadcast.
static double readBroadcast(const Tensor &t, const Position &at) {
  Position mine(t.shape.size());
  size_t skip = at.size() - t.shape.size();
  for (size_t d = 0; d < mine.size(); ++d)
    mine[d] = t.shape[d] == 1 ? 0 : at[skip + d];
  return read(t, mine);
}

static Type elementType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static double nanAware(double x, double y, bool max) {
  if (std::isnan(x) || std::isnan(y))
    return NAN;
  return max ? std::max(x, y) : std::min(x, y);
}

static double castTo(double x, Type from, Type to) {
  if (to.isInteger(1))
    return x != 0;
  if (isa<FloatType>(to)) {
    if (to.isF64())
      return x;
    APFloat value(x);
    bool loses;
    value.convert(cast<FloatType>(to).getFloatSemantics(),
                  APFloat::rmNearestTiesToEven, &loses);
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return value.convertToDouble();
  }
  double truncated = std::trunc(x);
  int64_t integer = static_cast<int64_t>(truncated);
  switch (to.getIntOrFloatBitWidth()) {
  case 8:
    return to.isUnsignedInteger() ? double(uint8_t(integer))
                                  : double(int8_t(integer));
  case 16:
    return double(int16_t(integer));
  case 32:
    return double(int32_t(integer));
  default:
    return truncated;
  }
}

static double shiftLeft(double x, double y, IntegerType type) {
  if (y < 0 || y >= type.getWidth())
    return 0;
  double modulus = std::pow(2, type.getWidth());
  double nearest = std::remainder(x * std::pow(2, y), modulus);
  if (type.isUnsigned() || type.getWidth() == 1)
    return nearest < 0 ? nearest + modulus : nearest;
  return nearest == modulus / 2 ? -nearest : nearest;
}

/// Functions of one number; none for other ops.
static std::optional<double> applyFunction(Operation *op, double x) {
  if (isa<nn::NegOp>(op))
    return -x;
  if (isa<nn::AbsOp>(op))
    return std::fabs(x);
  if (isa<nn::SignOp>(op))
    return x > 0 ? 1 : x < 0 ? -1 : x;
  if (isa<nn::ExpOp>(op))
    return std::exp(x);
  if (isa<nn::LogOp>(op))
    return std::log(x);
  if (isa<nn::SqrtOp>(op))
    return std::sqrt(x);
  if (isa<nn::RsqrtOp>(op))
    return 1 / std::sqrt(x);
  if (isa<nn::ReciprocalOp>(op))
    return 1 / x;
  if (isa<nn::ErfOp>(op))
    return std::erf(x);
  if (isa<nn::TanhOp>(op))
    return std::tanh(x);
  if (isa<nn::SigmoidOp>(op))
    return 1 / (1 + std::exp(-x));
  if (isa<nn::SiluOp>(op))
    return x / (1 + std::exp(-x));
  if (isa<nn::SinOp>(op))
    return std::sin(x);
  if (isa<nn::CosOp>(op))
    return std::cos(x);
  if (isa<nn::Log1pOp>(op))
    return std::log1p(x);
  if (isa<nn::TanOp>(op))
    return std::tan(x);
  if (isa<nn::AsinOp>(op))
    return std::asin(x);
  if (isa<nn::AcosOp>(op))
    return std::acos(x);
  if (isa<nn::AtanOp>(op))
    return std::atan(x);
  if (isa<nn::SinhOp>(op))
    return std::sinh(x);
  if (isa<nn::CoshOp>(op))
    return std::cosh(x);
  if (isa<nn::AsinhOp>(op))
    return std::asinh(x);
  if (isa<nn::AcoshOp>(op))
    return std::acosh(x);
  if (isa<nn::AtanhOp>(op))
    return std::atanh(x);
  if (isa<nn::FloorOp>(op))
    return std::floor(x);
  if (isa<nn::CeilOp>(op))
    return std::ceil(x);
  if (isa<nn::RoundOp>(op))
    return std::nearbyint(x);
  if (isa<nn::ReluOp>(op))
    return std::isnan(x) ? x : std::max(x, 0.0);
  return std::nullopt;
}

static double applyGelu(nn::GeluOp gelu, double x) {
  return gelu.getTanh() ? x / 2 *
                              (1 + std::tanh(std::sqrt(2 / M_PI) *
                                             (x + 0.044715 * x * x * x)))
                        : x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}

/// The slope at y, times x.
static double applyGeluGradient(nn::GeluGradientOp slope, double x, double y) {
  double scale = slope.getTanh() ? std::sqrt(2 / M_PI) : 1 / std::sqrt(2.0);
  double cubic = slope.getTanh() ? 0.044715 : 0;
  double u = scale * (y + cubic * y * y * y);
  double du = scale * (1 + 3 * cubic * y * y);
  double bell = slope.getTanh() ? 1 / (std::cosh(u) * std::cosh(u))
                                : 2 / std::sqrt(M_PI) * std::exp(-u * u);
  double f = slope.getTanh() ? std::tanh(u) : std::erf(u);
  return x * ((1 + f) / 2 + y / 2 * bell * du);
}

/// Operations on two numbers; none for other ops.
static std::optional<double> applyTwo(Operation *op, double x, double y) {
  Type element = elementType(op->getOperand(0));
  bool isInteger = isa<IntegerType>(element), isBool = element.isInteger(1);
  if (isa<nn::AddOp>(op))
    return x + y;
  if (isa<nn::SubOp>(op))
    return x - y;
  if (isa<nn::MulOp>(op))
    return x * y;
  if (isa<nn::DivOp>(op))
    return isInteger ? std::trunc(x / y) : x / y;
  if (isa<nn::ModOp>(op))
    return x - std::floor(x / y) * y;
  if (isa<nn::RemOp>(op))
    return std::fmod(x, y);
  if (isa<nn::PowOp>(op))
    return isInteger ? std::trunc(std::pow(x, y)) : std::pow(x, y);
  if (isa<nn::MaxOp>(op))
    return nanAware(x, y, true);
  if (isa<nn::MinOp>(op))
    return nanAware(x, y, false);
  if (isa<nn::AndOp>(op))
    return isBool ? x != 0 && y != 0 : double(int64_t(x) & int64_t(y));
  if (isa<nn::OrOp>(op))
    return isBool ? x != 0 || y != 0 : double(int64_t(x) | int64_t(y));
  if (isa<nn::XorOp>(op))
    return isBool ? (x != 0) != (y != 0) : double(int64_t(x) ^ int64_t(y));
  if (isa<nn::ShiftLeftOp>(op))
    return shiftLeft(x, y, cast<IntegerType>(element));
  if (isa<nn::ShiftRightOp>(op))
    return y < 0 || y >= 64 ? x < 0 ? -1 : 0 : std::floor(x / std::pow(2, y));
  if (isa<nn::EqualOp>(op))
    return x == y;
  if (isa<nn::LessOp>(op))
    return x < y;
  if (isa<nn::LessEqualOp>(op))
    return x <= y;
  return std::nullopt;
}

static double applyElementwise(Operation *op, const std::vector<double> &v) {
  double x = v[0], y = v.size() > 1 ? v[1] : 0;
  if (std::optional<double> result = applyFunction(op, x))
    return *result;
  if (std::optional<double> result = applyTwo(op, x, y))
    return *result;
  bool isBool = elementType(op->getOperand(0)).isInteger(1);
  if (isa<nn::NotOp>(op))
    return isBool ? x == 0 : double(~int64_t(x));
  if (auto gelu = dyn_cast<nn::GeluOp>(op))
    return applyGelu(gelu, x);
  if (auto slope = dyn_cast<nn::GeluGradientOp>(op))
    return applyGeluGradient(slope, x, y);
  if (isa<nn::IsNaNOp>(op))
    return std::isnan(x);
  if (isa<nn::CastOp>(op))
    return castTo(x, elementType(op->getOperand(0)),
                  elementType(op->getResult(0)));
  if (isa<nn::SelectOp>(op))
    return x != 0 ? v[1] : v[2];
  if (auto norm = dyn_cast<nn::BatchNormOp>(op))
    return (x - v[3]) / std::sqrt(v[4] + norm.getEpsilon().convertToDouble()) *
               v[1] +
           v[2];
  op->emitError("no reference");
  std::abort();
}

/// Calls `body` with each position along `dims`, the others as in `base`.
static void along(const std::vector<int64_t> &shape,
                  const std::vector<int64_t> &dims, Position base,
                  const std::function<void(const Position &)> &body) {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (int64_t d : dims) {
    sizes.push_back(shape[d]);
    count *= shape[d];
  }
  for (int64_t k = 0; k < count; ++k) {
    Position inner = unflatten(k, sizes);
    for (size_t i = 0; i < dims.size(); ++i)
      base[dims[i]] = inner[i];
    body(base);
  }
}

struct RowStatistics {
  double max = -INFINITY, sum = 0, square = 0, count = 0, total = 0,
         variance = 0, magnitude = 0;
};
/// By position with the row's dimensions at 0.
using RowCache = std::map<Position, RowStatistics>;

static double rowOp(Operation *op, const std::vector<Tensor> &in,
                    const Position &at, RowCache &cache) {
  const Tensor &x = in[0];
  std::vector<int64_t> dims;
  if (auto softmax = dyn_cast<nn::SoftmaxOp>(op))
    dims = {(int64_t)softmax.getDim()};
  else if (auto log = dyn_cast<nn::LogSoftmaxOp>(op))
    dims = {(int64_t)log.getDim()};
  else {
    int64_t first = cast<IntegerAttr>(op->getAttr("dim")).getInt();
    for (int64_t d = first; d < (int64_t)x.shape.size(); ++d)
      dims.push_back(d);
  }
  Position base(at);
  for (int64_t d : dims)
    base[d] = 0;
  auto [it, isNew] = cache.try_emplace(base);
  RowStatistics &row = it->second;
  if (isNew) {
    along(x.shape, dims, at, [&](const Position &p) {
      row.max = std::max(row.max, read(x, p));
      row.sum += read(x, p);
      row.square += read(x, p) * read(x, p);
      row.magnitude += std::fabs(read(x, p));
      row.count += 1;
    });
    double mean = row.sum / row.count;
    along(x.shape, dims, at, [&](const Position &p) {
      row.total += std::exp(read(x, p) - row.max);
      row.variance += (read(x, p) - mean) * (read(x, p) - mean) / row.count;
    });
  }
  double value = read(x, at);
  if (isa<nn::SoftmaxOp>(op))
    return std::exp(value - row.max) / row.total;
  if (isa<nn::LogSoftmaxOp>(op))
    return value - row.max - std::log(row.total);
  if (auto norm = dyn_cast<nn::LpNormOp>(op)) {
    double by = norm.getAbsolute() ? row.magnitude : std::sqrt(row.square);
    return by == 0 ? 0 : value / by;
  }
  Position trailing(at.begin() + dims[0], at.end());
  double scale = read(in[1], trailing);
  if (auto norm = dyn_cast<nn::LayerNormOp>(op))
    return (value - row.sum / row.count) /
               std::sqrt(row.variance + norm.getEpsilon().convertToDouble()) *
               scale +
           read(in[2], trailing);
  double epsilon = cast<nn::RMSNormOp>(op).getEpsilon().convertToDouble();
  return value / std::sqrt(row.square / row.count + epsilon) * scale;
}

static double reduce(nn::ReduceOp op, const Tensor &x, const Position &at) {
  std::vector<int64_t> dims(op.getDims().begin(), op.getDims().end());
  Position base(x.shape.size());
  size_t next = 0;
  for (size_t d = 0; d < base.size(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      base[d] = at[next++];
  nn::ReduceKind kind = op.getKind();
  double result = kind == nn::ReduceKind::Sum    ? 0
                  : kind == nn::ReduceKind::Prod ? 1
                  : kind == nn::ReduceKind::Max  ? -INFINITY
                                                 : INFINITY;
  along(x.shape, dims, base, [&](const Position &p) {
    double v = read(x, p);
    if (kind == nn::ReduceKind::Sum)
      result += v;
    else if (kind == nn::ReduceKind::Prod)
      result *= v;
    else
      result = nanAware(result, v, kind == nn::ReduceKind::Max);
  });
  return result;
}

static double argReduce(nn::ArgReduceOp op, const Tensor &x,
                        const Position &at) {
  Position p(at);
  p.insert(p.begin() + op.getDim(), 0);
  int64_t best = 0;
  double bestValue = 0;
  for (int64_t j = 0; j < x.shape[op.getDim()]; ++j) {
    p[op.getDim()] = j;
    double v = read(x, p);
    bool better = op.getMin() ? v < bestValue : v > bestValue;
    if (j == 0 || better || (v == bestValue && op.getLast())) {
      best = j;
      bestValue = v;
    }
  }
  return best;
}

template <typename Pool>
static double pool(Pool op, const Tensor &x, const Position &at, bool max) {
  size_t spatial = op.getKernel().size();
  std::vector<int64_t> kernel(op.getKernel().begin(), op.getKernel().end());
  int64_t taps = 1;
  for (int64_t k : kernel)
    taps *= k;
  double best = -INFINITY, sum = 0, count = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Position r = unflatten(tap, kernel), p(at);
    bool inside = true, insidePadding = true;
    for (size_t d = 0; d < spatial; ++d) {
      p[d + 1] = at[d + 1] * op.getStrides()[d] + r[d] * op.getDilations()[d] -
                 op.getLow()[d];
      inside &= p[d + 1] >= 0 && p[d + 1] < x.shape[d + 1];
      int64_t high = op.getHigh()[d];
      if constexpr (std::is_same_v<Pool, nn::AvgPoolOp>)
        if (op.getCountHigh())
          high = (*op.getCountHigh())[d];
      insidePadding &= p[d + 1] < x.shape[d + 1] + high;
    }
    if (inside) {
      best = std::max(best, read(x, p));
      sum += read(x, p);
    }
    bool counts = inside;
    if constexpr (std::is_same_v<Pool, nn::AvgPoolOp>)
      counts = op.getCountIncludePad() ? insidePadding : inside;
    count += counts;
  }
  return max ? best : sum / count;
}

static double lrn(nn::LRNOp op, const Tensor &x, const Position &at) {
  int64_t size = op.getSize(), c = at.back();
  double sum = 0;
  for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; ++k) {
    if (k < 0 || k >= x.shape.back())
      continue;
    Position p(at);
    p.back() = k;
    sum += read(x, p) * read(x, p);
  }
  return read(x, at) /
         std::pow(op.getBias().convertToDouble() +
                      op.getAlpha().convertToDouble() / size * sum,
                  op.getBeta().convertToDouble());
}

static double matmul(nn::MatmulOp op, const Tensor &a, const Tensor &b,
                     const Position &at) {
  size_t rank = at.size();
  int64_t depth = a.shape[a.shape.size() - (op.getTransposeLhs() ? 2 : 1)];
  double sum = 0;
  for (int64_t k = 0; k < depth; ++k) {
    Position batch(at.begin(), at.end() - 2);
    Position l(batch), r(batch);
    l.push_back(op.getTransposeLhs() ? k : at[rank - 2]);
    l.push_back(op.getTransposeLhs() ? at[rank - 2] : k);
    r.push_back(op.getTransposeRhs() ? at[rank - 1] : k);
    r.push_back(op.getTransposeRhs() ? k : at[rank - 1]);
    // Sizes of 1 broadcast in batch dimensions only; the others have index 0.
    sum += readBroadcast(a, l) * readBroadcast(b, r);
  }
  return sum;
}

static double conv(nn::ConvOp op, const Tensor &x, const Tensor &w,
                   const Position &at) {
  size_t spatial = w.shape.size() - 2;
  int64_t channels = w.shape[1], perGroup = w.shape[0] / op.getGroups();
  int64_t group = at.back() / perGroup;
  std::vector<int64_t> kernel(w.shape.begin() + 1, w.shape.end());
  int64_t taps = 1;
  for (int64_t k : kernel)
    taps *= k;
  double sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    Position r = unflatten(tap, kernel), p(at), q = {at.back()};
    q.insert(q.end(), r.begin(), r.end());
    bool inside = true;
    for (size_t d = 0; d < spatial; ++d) {
      p[d + 1] = at[d + 1] * op.getStrides()[d] +
                 r[d + 1] * op.getDilations()[d] - op.getLow()[d];
      inside &= p[d + 1] >= 0 && p[d + 1] < x.shape[d + 1];
    }
    p.back() = group * channels + r[0];
    if (inside)
      sum += read(x, p) * read(w, q);
  }
  return sum;
}

static double element(Operation *op, const std::vector<Tensor> &in,
                      const Tensor &result, int64_t flat, RowCache &cache) {
  Position at = unflatten(flat, result.shape);
  if (isa<nn::ReshapeOp>(op))
    return in[0].data[flat];
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    Position p(at.size());
    for (size_t d = 0; d < at.size(); ++d)
      p[transpose.getPerm()[d]] = at[d];
    return read(in[0], p);
  }
  if (isa<nn::BroadcastOp>(op))
    return readBroadcast(in[0], at);
  if (auto concat = dyn_cast<nn::ConcatOp>(op)) {
    Position p(at);
    for (const Tensor &part : in) {
      if (p[concat.getDim()] < part.shape[concat.getDim()])
        return read(part, p);
      p[concat.getDim()] -= part.shape[concat.getDim()];
    }
  }
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    Position p(at);
    for (size_t d = 0; d < at.size(); ++d)
      p[d] = slice.getStarts()[d] + at[d] * slice.getStrides()[d];
    return read(in[0], p);
  }
  if (auto pad = dyn_cast<nn::PadOp>(op)) {
    Position p(at);
    for (size_t d = 0; d < at.size(); ++d) {
      p[d] -= pad.getLow()[d];
      if (p[d] < 0 || p[d] >= in[0].shape[d]) {
        if (auto number = dyn_cast<FloatAttr>(pad.getValue()))
          return number.getValueAsDouble();
        return cast<IntegerAttr>(pad.getValue()).getValue().getSExtValue();
      }
    }
    return read(in[0], p);
  }
  if (auto gather = dyn_cast<nn::GatherOp>(op)) {
    int64_t dim = gather.getDim(), rank = in[1].shape.size();
    Position where(at.begin() + dim, at.begin() + dim + rank);
    double index = read(in[1], where);
    int64_t size = in[0].shape[dim];
    if (gather.getPartial() && (index < 0 || index >= size))
      return 0;
    Position p(at.begin(), at.begin() + dim);
    p.push_back(index < 0 ? index + size : index);
    p.insert(p.end(), at.begin() + dim + rank, at.end());
    return read(in[0], p);
  }
  if (auto iota = dyn_cast<nn::IotaOp>(op))
    return at[iota.getDim()];
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto elements = constant.getElements();
    Attribute value = *(elements.getValues<Attribute>().begin() + flat);
    if (auto number = dyn_cast<FloatAttr>(value))
      return number.getValueAsDouble();
    if (elements.getElementType().isInteger(1))
      return cast<IntegerAttr>(value).getValue().getBoolValue();
    return cast<IntegerAttr>(value).getValue().getSExtValue();
  }
  if (auto r = dyn_cast<nn::ReduceOp>(op))
    return reduce(r, in[0], at);
  if (auto r = dyn_cast<nn::ArgReduceOp>(op))
    return argReduce(r, in[0], at);
  if (isa<nn::SoftmaxOp, nn::LogSoftmaxOp, nn::LayerNormOp, nn::RMSNormOp,
          nn::LpNormOp>(op))
    return rowOp(op, in, at, cache);
  if (auto p = dyn_cast<nn::MaxPoolOp>(op))
    return pool(p, in[0], at, true);
  if (auto p = dyn_cast<nn::AvgPoolOp>(op))
    return pool(p, in[0], at, false);
  if (auto l = dyn_cast<nn::LRNOp>(op))
    return lrn(l, in[0], at);
  if (auto m = dyn_cast<nn::MatmulOp>(op))
    return matmul(m, in[0], in[1], at);
  if (auto c = dyn_cast<nn::ConvOp>(op))
    return conv(c, in[0], in[1], at);
  std::vector<double> values;
  for (const Tensor &operand : in)
    values.push_back(readBroadcast(operand, at));
  return applyElementwise(op, values);
}

Tensor evaluate(Operation *op, const std::vector<Tensor> &operands) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Tensor result;
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  result.data.resize(type.getNumElements());
  RowCache cache;
  for (int64_t flat = 0; flat < result.size(); ++flat)
    result.data[flat] = element(op, operands, result, flat, cache);
  return result;
}

} // namespace kerf::reference
