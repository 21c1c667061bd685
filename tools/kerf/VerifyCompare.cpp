//===- VerifyCompare.cpp - numbers against numbers ------------------------===//
#include "VerifyCompare.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kerf;
using namespace kerf::tool;

static double halfToDouble(uint16_t bits) {
  int sign = bits >> 15, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? std::nan("") : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return sign ? -value : value;
}

/// The number of a code of 2 to 8 bits.
static double codeToDouble(uint8_t code, kerf_dtype_t dtype) {
  auto floating = [&](const llvm::fltSemantics &semantics, unsigned bits) {
    llvm::APFloat value(semantics, llvm::APInt(8, code).trunc(bits));
    bool lost;
    value.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble();
  };
  switch (dtype) {
  case KERF_F8E4M3FN:
    return floating(llvm::APFloat::Float8E4M3FN(), 8);
  case KERF_F8E4M3FNUZ:
    return floating(llvm::APFloat::Float8E4M3FNUZ(), 8);
  case KERF_F8E5M2:
    return floating(llvm::APFloat::Float8E5M2(), 8);
  case KERF_F8E5M2FNUZ:
    return floating(llvm::APFloat::Float8E5M2FNUZ(), 8);
  case KERF_F8E8M0FNU:
    return floating(llvm::APFloat::Float8E8M0FNU(), 8);
  case KERF_F4E2M1FN:
    return floating(llvm::APFloat::Float4E2M1FN(), 4);
  case KERF_I4:
    return code & 8 ? code - 16 : code;
  case KERF_I2:
    return code & 2 ? code - 4 : code;
  default:
    return code;
  }
}

double kerf::tool::elementAt(const void *data, kerf_dtype_t dtype,
                             int64_t index) {
  const char *at = static_cast<const char *>(data) +
                   index * static_cast<int64_t>(kerf_dtype_size(dtype));
  auto as = [&](auto zero) {
    std::memcpy(&zero, at, sizeof(zero));
    return zero;
  };
  switch (dtype) {
  case KERF_F32:
    return as(float());
  case KERF_F64:
    return as(double());
  case KERF_F16:
    return halfToDouble(as(uint16_t()));
  case KERF_BF16: {
    uint32_t bits = uint32_t(as(uint16_t())) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  case KERF_I8:
    return as(int8_t());
  case KERF_I16:
    return as(int16_t());
  case KERF_I32:
    return as(int32_t());
  case KERF_I64:
    return static_cast<double>(as(int64_t()));
  case KERF_U8:
  case KERF_BOOL:
    return as(uint8_t());
  case KERF_U16:
    return as(uint16_t());
  case KERF_U32:
    return as(uint32_t());
  case KERF_U64:
    return static_cast<double>(as(uint64_t()));
  default:
    return codeToDouble(as(uint8_t()), dtype);
  }
}

std::vector<double> kerf::tool::toNumbers(const void *data, kerf_dtype_t dtype,
                                          int64_t count) {
  std::vector<double> numbers(count);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = elementAt(data, dtype, i);
  return numbers;
}

double kerf::tool::largestMagnitude(const std::vector<double> &numbers) {
  double result = 0;
  for (double value : numbers)
    if (std::isfinite(value))
      result = std::max(result, std::fabs(value));
  return result;
}

bool kerf::tool::isExact(kerf_dtype_t dtype) {
  bool isFloat = dtype == KERF_F32 || dtype == KERF_F64 || dtype == KERF_F16 ||
                 dtype == KERF_BF16;
  return !isFloat && (dtype < KERF_F8E4M3FN || dtype > KERF_F4E2M1FN);
}

Tolerance::Tolerance(const Options &given, kerf_dtype_t dtype, double narrow,
                     double largest) {
  // Of floats of 8 bits and less the next number is right, too: that behind 1,
  // or behind 0.
  if (dtype >= KERF_F8E4M3FN && dtype <= KERF_F4E2M1FN) {
    double first = codeToDouble(1, dtype), one = 0, next = 0;
    for (int code = 0; code < 255 && one < 1; ++code) {
      one = codeToDouble(static_cast<uint8_t>(code), dtype);
      next = codeToDouble(static_cast<uint8_t>(code + 1), dtype);
    }
    rtol = given.rtol.value_or(next - one);
    atol = given.atol.value_or(first);
    return;
  }
  rtol = given.rtol.value_or(isExact(dtype) ? 0 : 1e-3);
  atol = given.atol.value_or(isExact(dtype) ? 0
                             : narrow > 0   ? narrow * largest
                                            : 1e-5);
}

Piece kerf::tool::wholePiece(const kerf_tensor_info_t &info,
                             std::vector<double> numbers) {
  return wholePiece({info.shape, info.shape + info.rank}, std::move(numbers));
}

Piece kerf::tool::wholePiece(std::vector<int64_t> shape,
                             std::vector<double> numbers) {
  std::vector<int64_t> starts(shape.size(), 0);
  return {std::move(starts), std::move(shape), std::move(numbers), {}, true};
}

/// The difference of x and y; infinite if only one is NaN.
static double distance(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y)))
    return 0;
  double difference = std::fabs(x - y);
  return std::isnan(difference) ? INFINITY : difference;
}

/// The tolerance for an infinite y would be infinite and accept anything.
static bool isWithin(const Tolerance &tolerance, double difference, double y) {
  return difference == 0 ||
         (difference <= tolerance.atol + tolerance.rtol * std::fabs(y) &&
          std::isfinite(difference));
}

void kerf::tool::widenSlack(std::vector<Piece> &pieces,
                            const std::vector<Piece> &others, double factor,
                            const Tolerance &tolerance) {
  for (auto [piece, other] : llvm::zip_equal(pieces, others)) {
    piece.slack.resize(piece.numbers.size());
    piece.beyond.resize(piece.numbers.size());
    piece.by.resize(piece.numbers.size());
    piece.moved.resize(piece.numbers.size());
    piece.others.resize(piece.numbers.size());
    ++piece.runs;
    for (size_t i = 0; i < piece.numbers.size(); ++i) {
      double moved = std::fabs(other.numbers[i] - piece.numbers[i]);
      if (!std::isfinite(factor * moved))
        continue;
      if (factor * moved > piece.slack[i]) {
        piece.others[i] = static_cast<float>(piece.slack[i]);
        piece.slack[i] = factor * moved;
        piece.moved[i] = static_cast<float>(moved);
        piece.by[i] = static_cast<uint16_t>(piece.runs);
      } else {
        piece.others[i] =
            std::max(piece.others[i], static_cast<float>(factor * moved));
      }
      piece.beyond[i] += !isWithin(tolerance, moved, piece.numbers[i]);
    }
  }
}

/// Whether one run has moved element `i` farther than the slack that all others
/// give: without that run, its own number would be called wrong.
static bool isMovedByOne(const Piece &piece, size_t i,
                         const Tolerance &tolerance) {
  return !isWithin(tolerance, std::max(piece.moved[i] - piece.others[i], 0.0F),
                   piece.numbers[i]);
}

/// The chance of `count` events or more, of which `expected` are expected, by
/// Poisson's distribution; 1 for those up to the expected number.
static double atLeastByChance(int64_t count, double expected) {
  auto first = static_cast<double>(count);
  if (first <= expected)
    return 1;
  // From the first term on each is less than the one before.
  double term = expected > 0 ? std::exp(first * std::log(expected) - expected -
                                        std::lgamma(first + 1))
                             : 0;
  double chance = 0;
  for (double k = first; term > 1e-12; ++k) {
    chance += term;
    term *= expected / (k + 1);
  }
  return chance;
}

/// Some elements are moved by rounding in few runs only, or in one much farther
/// than in the others. So the program, which is one run more, may move some
/// that no run has moved before, or as far. How many is told by the elements of
/// which this is true of one of the runs:
/// - Their number divided by the number of runs is what is expected (Good and
///   Turing's estimate; I. J. Good, Biometrika 40, 1953). The actual number has
///   Poisson's distribution; a number that is less likely than one in a
///   thousand is not explained by chance.
/// - Where rounding moves whole rows at once, elements do not move by
///   themselves. Then the run with most of them tells: a program may have twice
///   as many.
void kerf::tool::explainByChance(Difference &difference,
                                 const std::vector<Piece> &pieces) {
  if (difference.wrong == 0 || !difference.isWithinMoves ||
      !difference.whole.empty())
    return;
  double expected = 0;
  std::vector<int64_t> ofRuns;
  for (const Piece &piece : pieces) {
    ofRuns.resize(std::max<size_t>(ofRuns.size(), piece.runs + 1));
    for (size_t i = 0; i < piece.beyond.size(); ++i) {
      bool byOne = isMovedByOne(piece, i, difference.tolerance);
      expected += (byOne || piece.beyond[i] == 1) / double(piece.runs);
      ofRuns[piece.by[i]] += byOne;
    }
  }
  int64_t most =
      ofRuns.empty() ? 0 : *std::max_element(ofRuns.begin(), ofRuns.end());
  if (difference.wrong > 2 * most &&
      atLeastByChance(difference.wrong, expected) < 1e-3)
    return;
  difference.undecided += difference.wrong;
  difference.wrong = 0;
}

Difference kerf::tool::compare(const kerf_tensor_info_t &info, const void *data,
                               const std::vector<Piece> &pieces,
                               const Tolerance &tolerance,
                               const std::vector<Piece> &wide) {
  Difference result;
  result.tolerance = tolerance;
  result.name = info.name;
  result.isExact = isExact(info.dtype);
  result.shape.assign(info.shape, info.shape + info.rank);
  double maxMoved = 0; // of any element, by rounding
  for (const Piece &piece : pieces)
    for (double slack : piece.slack)
      maxMoved = std::max(maxMoved, slack);
  bool isAllMoved = true;
  for (size_t p = 0; p < pieces.size(); ++p) {
    const Piece &piece = pieces[p];
    if (piece.isWhole && piece.shape != result.shape) {
      result.expectedShape = piece.shape;
      result.wrong = 1;
      break;
    }
    std::vector<int64_t> index(piece.shape.size(), 0);
    for (size_t i = 0; i < piece.numbers.size(); ++i) {
      int64_t linear = 0;
      for (size_t d = 0; d < index.size(); ++d)
        linear = linear * result.shape[d] + piece.starts[d] + index[d];
      double x = elementAt(data, info.dtype, linear), y = piece.numbers[i];
      ++result.elements;
      double difference = distance(x, y);
      double beyond = difference; // what the element may differ anyway
      if (!piece.own.empty())
        beyond = std::max(difference - double(piece.own[i]), 0.0);
      bool right = isWithin(tolerance, beyond, y);
      if (!right && !wide.empty()) {
        double other = wide[p].numbers[i];
        if (isWithin(tolerance, distance(x, other), other)) {
          right = true;
          ++result.unrounded;
          difference = distance(x, other);
          y = other;
        }
      }
      if (!right && !piece.slack.empty() &&
          isWithin(tolerance, std::max(beyond - piece.slack[i], 0.0), y)) {
        right = true;
        ++result.undecided;
      }
      result.wrong += !right;
      if (std::isfinite(y))
        result.magnitude = std::max(result.magnitude, std::fabs(y));
      isAllMoved &= right || difference <= maxMoved;
      if (difference > result.largest) {
        result.largest = difference;
        result.found = x;
        result.expected = y;
        result.at.clear();
        for (size_t d = 0; d < index.size(); ++d)
          result.at.push_back(piece.starts[d] + index[d]);
      }
      result.notNumbers += std::isnan(x) && std::isnan(y);
      // What the absolute tolerance takes anyway says nothing.
      if (y != 0 && difference > tolerance.atol)
        result.largestRelative =
            std::max(result.largestRelative, difference / std::fabs(y));
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < piece.shape[d])
          break;
        index[d] = 0;
      }
    }
  }
  result.largest = std::max(result.largest, 0.0);
  result.isWithinMoves = isAllMoved && !result.expectedShape;
  return result;
}

std::string kerf::tool::indexText(const std::vector<int64_t> &index) {
  std::string text;
  for (int64_t i : index)
    text += (text.empty() ? "" : ", ") + std::to_string(i);
  return "[" + text + "]";
}

std::string kerf::tool::differenceText(const Difference &d, bool ofTraining) {
  if (d.expectedShape)
    return "has shape " + indexText(d.shape) + ", the reference " +
           indexText(*d.expectedShape);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << d.elements << (d.elements == 1 ? " element" : " elements")
         << ", largest difference " << llvm::format("%.3g", d.largest);
  if (d.largest > 0)
    stream << " at " << indexText(d.at) << " ("
           << llvm::format("%.7g against %.7g", d.found, d.expected) << ")";
  if (d.largestRelative > 0)
    stream << ", largest relative " << llvm::format("%.3g", d.largestRelative);
  if (d.notNumbers == d.elements && d.elements > 0)
    stream << "; all are NaN in both, so nothing was compared";
  else if (d.notNumbers)
    stream << "; " << d.notNumbers << " are NaN in both";
  if (!d.isExact && d.magnitude > 0 && d.magnitude <= d.tolerance.atol)
    stream << "; no number is larger than atol, so zeros would be equal, too: "
              "a smaller --atol tells";
  if (d.unrounded)
    stream << "; " << d.unrounded
           << " as without rounding 16-bit values in between";
  if (d.undecided)
    stream << "; " << d.undecided << " that rounding alone decides ("
           << (d.isExact    ? "a choice between numbers that differ by no more"
               : ofTraining ? "a gradient that is 0 but for it, what is left "
                              "of larger numbers, or a value at a border such "
                              "as ReLU's 0"
                            : "last bits, what is left of larger numbers, or a "
                              "value at a jump such as Round's")
           << ")";
  if (d.largest > 0)
    stream << "; "
           << (d.wrong       ? std::to_string(d.wrong) + " outside"
               : d.undecided ? "all others within"
                             : "within")
           << " atol " << llvm::format("%g", d.tolerance.atol) << " + rtol "
           << llvm::format("%g", d.tolerance.rtol)
           << (d.isUpdate ? " + what 16 bits leave of each update" : "");
  if (!d.whole.empty())
    stream << "; " << d.whole;
  return text;
}
