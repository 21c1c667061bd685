//===- Mutations.h - damaged files, by rule and number ----------*- C++ -*-===//
//
// Random bytes rarely get past a parser. A mutation therefore changes one thing
// of the input's format: a token of JSON, a field of a protobuf message with
// the lengths around it mended, a byte or a number of a binary header. The same
// seed gives the same mutations on every machine.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUZZ_MUTATIONS_H
#define KERF_FUZZ_MUTATIONS_H

#include "Entries.h"

namespace kerf::fuzz {

/// SplitMix64: small, and the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, bound); 0 where there is no choice.
  size_t below(size_t bound) { return bound ? next() % bound : 0; }

private:
  uint64_t state;
};

/// Changes `bytes` in one to three places.
void mutate(std::vector<uint8_t> &bytes, Format format, Random &random);

} // namespace kerf::fuzz

#endif // KERF_FUZZ_MUTATIONS_H
