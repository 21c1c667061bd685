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

/// A value may differ from the reference's by so many times as much as these
/// roundings move it.
double slackFactor(const Roundings &roundings);

/// Widens the slack of what was computed to `factor` times what other roundings
/// have moved it.
void widenSlack(std::vector<Piece> &pieces, const std::vector<Piece> &others,
                double factor);

} // namespace kerf::tool

#endif // KERF_TOOLS_VERIFYSLACK_H
