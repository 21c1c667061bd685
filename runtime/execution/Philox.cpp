//===- Philox.cpp - numbers that depend on seed, name and index -----------===//
//
// Uniform numbers have 24 bits, so that they are exact in f32; normal ones come
// in pairs by Box and Muller.
//
//===----------------------------------------------------------------------===//
#include "Philox.h"

#include <cmath>

using namespace kerf::rt;

void kerf::rt::philox(uint64_t key, uint64_t block, uint32_t (&words)[4]) {
  uint32_t k0 = static_cast<uint32_t>(key),
           k1 = static_cast<uint32_t>(key >> 32);
  uint32_t c[4] = {static_cast<uint32_t>(block),
                   static_cast<uint32_t>(block >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c[0],
             p1 = uint64_t(0xCD9E8D57u) * c[2];
    uint32_t next[4] = {
        static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
        static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    for (int i = 0; i < 4; ++i)
      c[i] = next[i];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < 4; ++i)
    words[i] = c[i];
}

SeededTensor::SeededTensor(const SeededValues &seeded, const std::string &name)
    : values(seeded), key(seeded.seed) {
  for (char letter : name) // FNV-1a
    key = (key ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
}

double SeededTensor::at(int64_t element) {
  if (element / 4 != block) {
    block = element / 4;
    uint32_t words[4];
    philox(key, static_cast<uint64_t>(block), words);
    double uniform[4];
    for (int i = 0; i < 4; ++i)
      uniform[i] = (words[i] >> 8) * 0x1p-24;
    if (!values.normal) {
      for (int i = 0; i < 4; ++i)
        drawn[i] = values.first + (values.second - values.first) * uniform[i];
    } else {
      for (int i = 0; i < 4; i += 2) {
        double radius = std::sqrt(-2 * std::log(1 - uniform[i]));
        double angle = 6.283185307179586 * uniform[i + 1];
        drawn[i] = values.first + values.second * radius * std::cos(angle);
        drawn[i + 1] = values.first + values.second * radius * std::sin(angle);
      }
    }
  }
  return drawn[element % 4];
}
