//===- VerifySlack.cpp - what rounding alone decides ----------------------===//
#include "VerifySlack.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>

using namespace kerf;
using namespace kerf::tool;

/// A program rounds in more places than the reference: it may differ by this
/// factor times what other roundings move the reference. In a sum of n numbers
/// of either sign it rounds each partial sum, which is up to sqrt(n) times a
/// number, where the reference rounds the numbers alone: for the gradient of a
/// channel's bias n is batch x height x width, 4,096 for 4 images of 32 x 32.
static constexpr double kMoves = 64;

/// How far values are moved, in units of their rounding: small moves are
/// multiplied by what is missing to kMoves; large ones show where a value lies
/// so close to a border that rounding decides on which side. Each run is
/// followed by one with all moves the other way: what lies at a border crosses
/// it in one of the two. Then borders alone, by chance: behind BatchNorm these
/// may be farther away than moves reach, since the error of a mean moves a
/// whole channel.
std::vector<Roundings> kerf::tool::otherRoundings() {
  std::vector<Roundings> result;
  auto add = [&](interpret::Rounding kind, double units) {
    for (double signedUnits : {units, -units})
      result.push_back({kind, result.size() / 2 + 1, signedUnits});
  };
  for (double units : {1, 4, 16, 4, 16, 64, 16, 64, 16, 64, 64, 64, 64, 64})
    add(interpret::Rounding::Random, units);
  for (int run = 0; run < 8; ++run)
    add(interpret::Rounding::Choices, 4 * kMoves);
  return result;
}

/// An output of floats, which has no long sum over a batch behind it, may
/// differ by what four units of rounding in each stored number leave of it: as
/// many as its tolerance has, which sees only the last of them. Larger moves
/// say no more of it, and a wrong program should not wait for them.
static constexpr double kMovesOfFloats = 4;

/// Several choices at a time may cancel in part.
double kerf::tool::slackFactor(const Roundings &roundings, Moved moved) {
  bool byChoices = roundings.kind == interpret::Rounding::Choices;
  double units = std::fabs(roundings.units);
  switch (moved) {
  case Moved::State:
    return byChoices ? 4 : kMoves / units;
  case Moved::Floats:
    return byChoices || units > kMovesOfFloats ? 0 : kMovesOfFloats / units;
  case Moved::Choices:
    return 1;
  }
  llvm_unreachable("all kinds of numbers are above");
}
