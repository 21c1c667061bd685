//===- VerifySlack.h - what rounding alone decides --------------*- C++ -*-===//
//
// A reference is run again with other roundings: how far its values move shows
// by how much a right program may differ.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_VERIFYSLACK_H
#define KERF_TOOLS_VERIFYSLACK_H

#include "VerifyCompare.h"
#include "VerifyEvaluation.h"

namespace kerf::tool {

/// The roundings with which a reference is run again.
std::vector<Roundings> otherRoundings();

/// Of a step's numbers.
enum class Moved {
  State,   ///< a parameter or a state, into which sums over the batch have
           ///< gone, or an output of floats of a later step, which reads them
  Floats,  ///< an output of floats of the first step
  Choices, ///< an output of integers or bools: an element jumps to another
           ///< value even if the numbers that decide it move very little
};

/// A factor: a value may differ from the reference's by this factor times the
/// distance by which these roundings move it. 0: they allow no difference.
double slackFactor(const Roundings &roundings, Moved moved);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYSLACK_H
