//===- FuzzTarget.cpp - an entry under libFuzzer --------------------------===//
//
// KERF_FUZZ_ENTRIES names the list, KERF_FUZZ_NAME the entry. Half of the
// mutations are libFuzzer's own, half keep to the format of the input.
//
//===----------------------------------------------------------------------===//
#include "Entries.h"
#include "Mutations.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace kerf::fuzz;

static const Entry &entry() {
  for (const Entry &known : KERF_FUZZ_ENTRIES())
    if (std::strcmp(known.name, KERF_FUZZ_NAME) == 0)
      return known;
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Entry &target = entry();
  std::string broken = target.run(data, size);
  if (!broken.empty()) {
    std::fprintf(stderr, "broken promise: %s\n", broken.c_str());
    std::abort();
  }
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t max, unsigned seed) {
  if (seed % 2 == 0)
    return LLVMFuzzerMutate(data, size, max);
  std::vector<uint8_t> bytes(data, data + size);
  Random random(seed);
  mutate(bytes, entry().format, random);
  if (bytes.size() > max)
    return LLVMFuzzerMutate(data, size, max);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
