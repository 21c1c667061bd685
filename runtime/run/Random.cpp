//===- Random.cpp - seeded random inputs ----------------------------------===//
//
// A counter-based generator: splitmix64 of (hash of seed and name) + index. No
// state, so any part can be filled alone and gives the same values.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/run.h"

#include "../base/Splitmix.h"
#include "../base/Types.h"

#include "kerf/Format/StepScalars.h"

#include <cstring>

using namespace kerf;
using namespace kerf::rt;

template <typename T, typename Make>
static void fill(void *data, int64_t count, uint64_t key, Make &&make) {
  for (int64_t i = 0; i < count; ++i) {
    T value = make(splitmix(key + static_cast<uint64_t>(i)));
    std::memcpy(static_cast<char *>(data) + i * sizeof(T), &value, sizeof(T));
  }
}

void kerf::rt::fillRandom(const std::string &name, uint64_t seed,
                          kerf_dtype_t dtype, int64_t count, int64_t low,
                          int64_t high, void *data) {
  uint64_t key = splitmix(seed);
  for (char c : name)
    key = splitmix(key ^ static_cast<unsigned char>(c));
  auto unit = [](uint64_t bits) { // 24 bits: exact in float, [-1, 1)
    return static_cast<float>(static_cast<double>(bits >> 40) * 0x1p-23 - 1.0);
  };
  auto integer = [&](uint64_t bits) {
    uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return static_cast<uint64_t>(low) + (range ? bits % range : 0);
  };
  switch (dtype) {
  case KERF_F32:
    return fill<float>(data, count, key, unit);
  case KERF_F64:
    return fill<double>(data, count, key, [](uint64_t bits) {
      return double(bits >> 11) * 0x1p-52 - 1.0;
    });
  case KERF_F16:
    return fill<_Float16>(data, count, key, [&](uint64_t bits) {
      return static_cast<_Float16>(unit(bits));
    });
  case KERF_BF16: // truncation keeps [-1, 1)
    return fill<uint16_t>(data, count, key, [&](uint64_t bits) {
      float f = unit(bits);
      uint32_t word;
      std::memcpy(&word, &f, 4);
      return static_cast<uint16_t>(word >> 16);
    });
  case KERF_BOOL:
    return fill<uint8_t>(data, count, key, [](uint64_t bits) {
      return static_cast<uint8_t>(bits & 1);
    });
  case KERF_I8:
  case KERF_U8:
    return fill<uint8_t>(data, count, key, integer);
  case KERF_I16:
  case KERF_U16:
    return fill<uint16_t>(data, count, key, integer);
  case KERF_I32:
  case KERF_U32:
    return fill<uint32_t>(data, count, key, integer);
  case KERF_I64:
  case KERF_U64:
    return fill<uint64_t>(data, count, key, integer);
  case KERF_F8E4M3FN: // positive and negative numbers below 2
  case KERF_F8E4M3FNUZ:
  case KERF_F8E5M2:
  case KERF_F8E5M2FNUZ:
    return fill<uint8_t>(data, count, key, [](uint64_t bits) {
      uint64_t rest = bits & 0x3f;
      return static_cast<uint8_t>(rest ? rest | (bits & 0x80) : 0);
    });
  case KERF_F8E8M0FNU: // 1/8 to 16
    return fill<uint8_t>(data, count, key, [](uint64_t bits) {
      return static_cast<uint8_t>(124 + (bits & 7));
    });
  case KERF_F4E2M1FN:
  case KERF_I4:
  case KERF_U4:
  case KERF_I2:
  case KERF_U2:
    return fill<uint8_t>(data, count, key, [&](uint64_t bits) {
      return static_cast<uint8_t>(bits & ((1u << codeBits(dtype)) - 1));
    });
  }
}

bool kerf::rt::fillTrainingScalar(const std::string &name, kerf_dtype_t dtype,
                                  uint64_t seed, void *data) {
  if (!isStepScalar(name))
    return false;
  if (dtype == KERF_F32) {
    float value = name == kLearningRateInput ? 0.0f : 1.0f;
    std::memcpy(data, &value, sizeof(value));
    return true;
  }
  if (dtype != KERF_I64)
    return false;
  int64_t value = name == kSeedInput ? static_cast<int64_t>(seed) : 1;
  std::memcpy(data, &value, sizeof(value));
  return true;
}
