//===- VerifyUpdates.h - what a step changes --------------------*- C++ -*-===//
//
// With 16-bit values in a step, a tolerance at the scale of the parameters is
// more than most steps change. There a parameter is judged by its change: each
// element as the optimizer's formula passes on what 16 bits leave of the
// gradient, and, where other roundings of the reference move elements farther,
// the change as a whole, of which rounding leaves much more.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VERIFYUPDATES_H
#define KERF_TOOLS_VERIFYUPDATES_H

#include "VerifyReference.h"

namespace kerf::tool {

/// The update of a parameter by all steps, as the reference has it.
class Update {
public:
  /// None if the parameter is not judged by its change: with tolerances of the
  /// user, where it is itself rounded to 16 bits, or where the reference does
  /// not know what the optimizer does with a gradient.
  static std::optional<Update> make(const Options &options,
                                    const Program &judged, Reference &reference,
                                    const kerf_parameter_info_t &info,
                                    std::vector<double> before, Piece &piece);

  Tolerance tolerance() const { return limits; }
  /// Other roundings of the reference have led to these numbers.
  void addRun(const Roundings &roundings, const std::vector<double> &numbers);
  /// Whether `data`, which is right element by element with the slack of other
  /// roundings, is an update as large as the reference's in its direction, as
  /// far as there is one. If not, all elements of `difference` are wrong.
  void judgeWhole(const kerf_tensor_info_t &info, const void *data,
                  Difference &difference) const;
  /// Whether an update that is left out would be accepted.
  bool isBlind(const kerf_tensor_info_t &info,
               const std::vector<Piece> &pieces) const;

private:
  /// How much of the reference's change another one is: its projection on it.
  double along(llvm::function_ref<double(size_t)> number) const;

  std::vector<double> before, after;
  double length = 0;  ///< of the reference's change, as a vector
  double largest = 0; ///< element of it
  double moved = 0;   ///< by other roundings, of the projection
  Tolerance limits;
};

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYUPDATES_H
