//===- Splitmix.h - a hash of 64 bits ---------------------------*- C++ -*-===//
#ifndef KERF_RUNTIME_BASE_SPLITMIX_H
#define KERF_RUNTIME_BASE_SPLITMIX_H

#include <cstdint>

namespace kerf::rt {

/// A step of splitmix64 (Steele, Lea, Flood 2014): a bijection under which even
/// numbers that follow each other look random. Seeds mean the same in every
/// version as long as it stays as it is.
inline uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_SPLITMIX_H
