//===- VerifyCompare.h - numbers against numbers ----------------*- C++ -*-===//
//
// a - b| <= atol + rtol |b| with b from the reference. NaN equals only NaN, an
// infinity only itself; integers and bools must be equal unless a tolerance is
// given. In a narrow precision atol is relative to the largest element, since
// sums are rounded in other places; updates of parameters are judged there by
// what they change (VerifyUpdates.h).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VERIFYCOMPARE_H
#define KERF_TOOLS_VERIFYCOMPARE_H

#include "Options.h"

#include "kerf/rt/runtime.h"

#include <optional>

namespace kerf::tool {

/// An element of a buffer as a double.
double elementAt(const void *data, kerf_dtype_t dtype, int64_t index);
std::vector<double> toNumbers(const void *data, kerf_dtype_t dtype,
                              int64_t count);
double largestMagnitude(const std::vector<double> &numbers);
/// Integers and bools, which no arithmetic rounds.
bool isExact(kerf_dtype_t dtype);

struct Tolerance {
  double rtol = 0, atol = 0;
  Tolerance() = default;
  /// The user's tolerances, else 1e-3 and 1e-5, or for narrow values `narrow`
  /// (four units of rounding) times `largest`, the largest magnitude.
  Tolerance(const Options &options, kerf_dtype_t dtype, double narrow,
            double largest);
};

/// A box of a tensor that a reference has computed, in row-major order.
struct Piece {
  std::vector<int64_t> starts, shape;
  std::vector<double> numbers;
  /// By how much more each may differ; empty: by nothing.
  std::vector<double> slack;
  bool isWhole = false; ///< then the tensor must have its shape
  /// What each may differ beside the tolerance of all; empty: nothing.
  std::vector<float> own = {};
  /// In how many of `runs` runs with other roundings each was beyond the
  /// tolerance.
  std::vector<uint16_t> beyond = {};
  /// Of the run that gives each its slack: its number, and how far it has moved
  /// it. And the slack that the other runs give.
  std::vector<uint16_t> by = {};
  std::vector<float> moved = {}, others = {};
  int64_t runs = 0;
};
/// Widens the slack of each number to `factor` times what other roundings have
/// moved it.
void widenSlack(std::vector<Piece> &pieces, const std::vector<Piece> &others,
                double factor, const Tolerance &tolerance);
/// The whole tensor.
Piece wholePiece(std::vector<int64_t> shape, std::vector<double> numbers);
Piece wholePiece(const kerf_tensor_info_t &info, std::vector<double> numbers);

/// The largest difference of one tensor, and where.
struct Difference {
  std::string name;
  std::vector<int64_t> shape, at;
  /// Another shape that the reference has, which is why `wrong` is 1.
  std::optional<std::vector<int64_t>> expectedShape;
  int64_t elements = 0, wrong = 0;
  int64_t unrounded = 0;  ///< elements equal only to the unrounded reference
  int64_t undecided = 0;  ///< elements equal only by their slack
  int64_t notNumbers = 0; ///< elements that are NaN in both
  /// Whether those that are wrong are off by no more than rounding has moved
  /// some element.
  bool isWithinMoves = false;
  bool isExact = false;  ///< of integers or bools
  std::string whole;     ///< why all elements of an update are wrong
  bool isUpdate = false; ///< judged by its change
  double largest = -1, largestRelative = 0, found = 0, expected = 0;
  double magnitude = 0; ///< of the reference's largest number
  Tolerance tolerance;
};

/// Compares `data` of the program with the pieces that are known. An element
/// may instead equal that of `wide`, the same pieces computed with 16-bit
/// values held in f32.
Difference compare(const kerf_tensor_info_t &info, const void *data,
                   const std::vector<Piece> &pieces, const Tolerance &tolerance,
                   const std::vector<Piece> &wide = {});

/// Behind all runs with other roundings: counts elements that are wrong as
/// undecided if they may be those that rounding happens to move in the program
/// and moved in no run.
void explainByChance(Difference &difference, const std::vector<Piece> &pieces);

/// "[3, 1, 19806]".
std::string indexText(const std::vector<int64_t> &index);
/// "25731584 elements, largest difference 6.91e-06 at ...".
/// `ofTraining`: of a training step, which has gradients.
std::string differenceText(const Difference &difference, bool ofTraining);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYCOMPARE_H
