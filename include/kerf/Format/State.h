//===- State.h - names of what generation sets ------------------*- C++ -*-===//
//
// Shared by the compiler, which makes such an input, and the runtime, which
// sets it in each step.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_STATE_H
#define KERF_FORMAT_STATE_H

namespace kerf {

/// The input (i64, one number per sample) of a program with a cache: how many
/// positions of the cache are filled, and so where this step writes.
inline constexpr char kStatePosition[] = "state.position";

} // namespace kerf

#endif // KERF_FORMAT_STATE_H
