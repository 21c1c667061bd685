//===- RandomProgram.h - random functions of upstream ops -------*- C++ -*-===//
#ifndef KERF_UNITTESTS_MODELS_RANDOMPROGRAM_H
#define KERF_UNITTESTS_MODELS_RANDOMPROGRAM_H

#include <random>
#include <string>

namespace kerf::test {

using Random = std::mt19937;

/// A module with a function @f of `numOps` ops of linalg (generics with random
/// maps, reductions and bodies; named ops), tensor and arith, as text. Elements
/// are f64 and stay integers where inputs are, so sums are exact in any order.
std::string makeProgram(Random &random, int numOps);

} // namespace kerf::test

#endif // KERF_UNITTESTS_MODELS_RANDOMPROGRAM_H
