//===- VerifyUpdates.cpp - what a step changes ----------------------------===//
#include "VerifyUpdates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace kerf;
using namespace kerf::tool;

/// Each step rounds a parameter to float32, in the program and in the
/// reference, and weight decay once more.
static constexpr double kRoundingOfStep = 0x1p-22;

/// What the program may differ in an update whose gradient is exact: formulas
/// in another order, lr and corrections of the bias in float32.
static constexpr double kFormula = 1e-3;

std::optional<Update> Update::make(const Options &options,
                                   const Program &judged, Reference &reference,
                                   const kerf_parameter_info_t &info,
                                   std::vector<double> before, Piece &piece) {
  kerf_dtype_t dtype = info.tensor.dtype;
  const std::vector<float> *moves = reference.moves(info);
  if (options.atol || options.rtol || !moves ||
      (dtype != KERF_F32 && dtype != KERF_F64))
    return std::nullopt;
  Update update;
  update.before = std::move(before);
  update.after = piece.numbers;
  for (auto [now, old] : llvm::zip_equal(update.after, update.before)) {
    double change = now - old;
    if (!std::isfinite(change))
      return std::nullopt;
    update.length = std::hypot(update.length, change);
    update.largest = std::max(update.largest, std::fabs(change));
  }
  piece.own = *moves;
  update.limits.rtol =
      kRoundingOfStep * static_cast<double>(judged.numSteps() + 1);
  update.limits.atol = kFormula * update.largest;
  return update;
}

double Update::along(llvm::function_ref<double(size_t)> number) const {
  double sum = 0;
  for (size_t i = 0; i < before.size(); ++i)
    sum += (number(i) - before[i]) / length * ((after[i] - before[i]) / length);
  return sum;
}

/// Of runs with many units of rounding the change as a whole says no more: it
/// is no long sum with one rounding.
static constexpr double kUnitsOfWhole = 4, kMaxUnitsOfWhole = 16;

void Update::addRun(const Roundings &roundings,
                    const std::vector<double> &numbers) {
  double units = std::fabs(roundings.units);
  if (roundings.kind != interpret::Rounding::Random ||
      units > kMaxUnitsOfWhole || length == 0)
    return;
  double part = along([&](size_t i) { return numbers[i]; });
  moved = std::max(moved,
                   std::max(1.0, kUnitsOfWhole / units) * std::fabs(part - 1));
}

/// A gradient that is 0 but for rounding has no direction: one that is 0 is as
/// right.
void Update::judgeWhole(const kerf_tensor_info_t &info, const void *data,
                        Difference &difference) const {
  if (difference.wrong > 0 || difference.undecided == 0 || length == 0)
    return;
  double part = along([&](size_t i) {
    return elementAt(data, info.dtype, static_cast<int64_t>(i));
  });
  double allowed = 0.1 + 2 * moved;
  if (std::fabs(part - 1) <= allowed)
    return;
  difference.wrong = difference.elements;
  difference.whole = llvm::formatv(
      "the update as a whole is {0:F2} of the reference's, by rounding it may "
      "be {1:F2} to {2:F2}",
      part, 1 - allowed, 1 + allowed);
}

bool Update::isBlind(const kerf_tensor_info_t &info,
                     const std::vector<Piece> &pieces) const {
  kerf_tensor_info_t doubles = info;
  doubles.dtype = KERF_F64;
  Difference difference = compare(doubles, before.data(), pieces, limits);
  judgeWhole(doubles, before.data(), difference);
  return difference.wrong == 0;
}
