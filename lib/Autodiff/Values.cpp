//===- Values.cpp - classifies sources by their elements ------------------===//
#include "Values.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/NN/NN.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Endian.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

// Values that exporters write for "minus infinity": -inf, the lowest number of
// f32 or f16, -1e9, -1e4. No weight is that large.
static constexpr double kVeryNegative = -9.9e3;
// Tables are rounded: angles of some thousands to 2^-11, entries to 16 bits.
static constexpr double kTolerance = 4e-3;
// By how much of the radius the magnitudes of sines and of cosines differ at
// least. Less than sqrt(2 * kTolerance) would be within the tolerance beside
// any numbers that are alike: small biases beside a scale of ones.
static constexpr double kLeastSpread = 0.1;

double Values::operator[](int64_t index) const {
  int64_t at = isSplat ? 0 : index;
  if (!strides.empty()) {
    at = begin;
    for (int64_t dim = type.getRank(); dim-- > 0;) {
      at += index % type.getDimSize(dim) * strides[dim];
      index /= type.getDimSize(dim);
    }
  }
  Type element = type.getElementType();
  if (element.isF32()) {
    float value;
    std::memcpy(&value, data + 4 * at, 4);
    return value;
  }
  if (element.isF64()) {
    double value;
    std::memcpy(&value, data + 8 * at, 8);
    return value;
  }
  llvm::APInt bits(16, llvm::support::endian::read16le(data + 2 * at));
  llvm::APFloat value(cast<FloatType>(element).getFloatSemantics(), bits);
  bool loses;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &loses);
  return value.convertToDouble();
}

bool Values::hasPositions() const {
  return llvm::count_if(shape(), [](int64_t size) { return size > 1; }) > 1;
}

bool Values::isUniform() const {
  for (int64_t i = 1; i < size(); ++i)
    if (!((*this)[i] == (*this)[0]))
      return false;
  return size() > 0;
}

bool Values::isScoreMask() const {
  bool hides = false;
  for (int64_t i = 0; i < size(); ++i) {
    double value = (*this)[i];
    if (value != 0 && !(value <= kVeryNegative))
      return false;
    hides |= value != 0;
  }
  return hides;
}

bool Values::isTwoValuedMask() const {
  double low = 0;
  bool hasZero = false;
  for (int64_t i = 0; i < size(); ++i) {
    double value = (*this)[i];
    hasZero |= value == 0;
    if (value == 0)
      continue;
    if (!(value < 0) || (low != 0 && value != low))
      return false;
    low = value;
  }
  return hasZero && low < 0 && size() > 2;
}

bool Values::isZeroOne() const {
  bool has[2] = {false, false};
  for (int64_t i = 0; i < size(); ++i) {
    double value = (*this)[i];
    if (value != 0 && value != 1)
      return false;
    has[value == 1] = true;
  }
  return has[0] && has[1];
}

bool Values::isProgression() const {
  // Trailing dimensions of size 1 are skipped.
  int64_t inner = 1;
  for (int64_t dim = type.getRank(); dim-- > 0 && inner == 1;)
    inner = type.getDimSize(dim);
  if (inner < 4)
    return false;
  bool moves = false;
  for (int64_t row = 0; row < size(); row += inner) {
    double step = (*this)[row + 1] - (*this)[row];
    moves |= step != 0;
    for (int64_t i = 2; i < inner; ++i) {
      double expected = (*this)[row] + step * static_cast<double>(i);
      double scale = std::abs(step) * static_cast<double>(i);
      if (!(std::abs((*this)[row + i] - expected) <= 1e-3 * scale))
        return false;
    }
  }
  return moves;
}

/// Whether x^2 + y^2 is the same for all pairs `distance` apart in rows that
/// are not all zero, while |x| is not.
bool Values::pairsAreOnCircle(int64_t distance) const {
  int64_t inner = type.getShape().back();
  double radius = -1, min = INFINITY, max = 0;
  int64_t pairs = 0;
  for (int64_t row = 0; row < size(); row += inner) {
    bool isZero = true;
    for (int64_t i = 0; i < inner && isZero; ++i)
      isZero = (*this)[row + i] == 0;
    if (isZero) // a class token has no position
      continue;
    for (int64_t block = 0; block < inner; block += 2 * distance)
      for (int64_t i = block; i < block + distance; ++i) {
        double x = (*this)[row + i], y = (*this)[row + i + distance];
        double square = x * x + y * y;
        if (radius < 0)
          radius = square;
        if (!(std::abs(square - radius) <= kTolerance * radius))
          return false;
        min = std::min(min, std::abs(x));
        max = std::max(max, std::abs(x));
        ++pairs;
      }
  }
  return pairs >= 4 && max - min > kLeastSpread * std::sqrt(radius);
}

/// Sines of equally spaced angles: x[p+1] + x[p-1] = 2 cos(step) x[p], with one
/// step per column.
bool Values::recursAlong(int64_t dim) const {
  int64_t count = type.getDimSize(dim), stride = 1;
  for (int64_t d = dim + 1; d < type.getRank(); ++d)
    stride *= type.getDimSize(d);
  if (count < 6)
    return false;
  bool turns = false;
  for (int64_t outer = 0; outer < size(); outer += count * stride)
    for (int64_t column = outer; column < outer + stride; ++column) {
      auto at = [&](int64_t p) { return (*this)[column + p * stride]; };
      double products = 0, squares = 0, largest = 0;
      for (int64_t p = 1; p + 1 < count; ++p) {
        products += (at(p + 1) + at(p - 1)) * at(p);
        squares += at(p) * at(p);
        largest = std::max(largest, std::abs(at(p)));
      }
      double twice = squares > 0 ? products / squares : 0;
      if (!(std::abs(twice) <= 2 + kTolerance))
        return false;
      for (int64_t p = 1; p + 1 < count; ++p)
        if (!(std::abs(at(p + 1) + at(p - 1) - twice * at(p)) <=
              kTolerance * largest))
          return false;
      turns |= largest > 0 && twice < 1.99;
    }
  return turns;
}

bool Values::isSinusoid() const {
  if (!hasPositions())
    return false;
  // Pairs of neighbours, of halves, or of halves of halves (rows and columns of
  // an image).
  int64_t inner = type.getShape().back();
  for (int64_t parts = 2; inner % parts == 0; parts *= 2)
    if (pairsAreOnCircle(inner / parts))
      return true;
  if (inner % 2 == 0 && pairsAreOnCircle(1))
    return true;
  for (int64_t dim = 0; dim + 1 < type.getRank(); ++dim)
    if (recursAlong(dim))
      return true;
  return false;
}

bool Values::isSinusoidWith(const Values &other) const {
  if (size() != other.size() || !hasPositions())
    return false;
  double radius = -1;
  double min[2] = {INFINITY, INFINITY}, max[2] = {0, 0};
  for (int64_t i = 0; i < size(); ++i) {
    double pair[2] = {std::abs((*this)[i]), std::abs(other[i])};
    double square = pair[0] * pair[0] + pair[1] * pair[1];
    if (radius < 0)
      radius = square;
    if (!(std::abs(square - radius) <= kTolerance * radius))
      return false;
    for (int each : {0, 1}) {
      min[each] = std::min(min[each], pair[each]);
      max[each] = std::max(max[each], pair[each]);
    }
  }
  double least = kLeastSpread * std::sqrt(radius);
  return max[0] - min[0] > least && max[1] - min[1] > least;
}

std::optional<Values> ValueReader::read(Operation *source) {
  Values values;
  values.type = cast<RankedTensorType>(source->getResult(0).getType());
  auto element = dyn_cast<FloatType>(values.type.getElementType());
  if (!element || (element.getWidth() != 16 && element.getWidth() != 32 &&
                   element.getWidth() != 64))
    return std::nullopt;
  if (auto constant = dyn_cast<nn::ConstantOp>(source)) {
    DenseElementsAttr elements = constant.getElements();
    values.data =
        reinterpret_cast<const uint8_t *>(elements.getRawData().data());
    values.isSplat = elements.isSplat();
    return values;
  }
  auto weight = dyn_cast<nn::WeightOp>(source);
  if (!weight)
    return std::nullopt;
  if (files.empty())
    if (auto paths = module->getAttrOfType<ArrayAttr>(kFilesAttr))
      for (Attribute path : paths) {
        std::string error;
        files.push_back(
            MappedFile::open(cast<StringAttr>(path).getValue(), error));
      }
  auto number = static_cast<size_t>(weight.getFile());
  if (number >= files.size() || !files[number])
    return std::nullopt;
  llvm::ArrayRef<uint8_t> bytes = files[number]->bytes();
  auto offset = static_cast<uint64_t>(weight.getOffset());
  auto length = static_cast<uint64_t>(weight.getLength());
  if (offset > bytes.size() || length > bytes.size() - offset)
    return std::nullopt;
  values.data = bytes.data() + offset;
  if (!weight.getStarts())
    return values;
  auto stored = cast<RankedTensorType>(weight.getStored());
  values.strides.resize(stored.getRank());
  int64_t stride = 1;
  for (int64_t dim = stored.getRank(); dim-- > 0;) {
    values.strides[dim] = stride;
    values.begin += (*weight.getStarts())[dim] * stride;
    stride *= stored.getDimSize(dim);
  }
  return values;
}
