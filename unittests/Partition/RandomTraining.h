//===- RandomTraining.h - random training steps -----------------*- C++ -*-===//
//
// A random function made into a step of training (docs/Training.md) by the
// smallest reverse mode there can be, over the ops' own vector-Jacobian
// products: partitioning is tested on graphs of every shape, whatever
// lib/Autodiff makes of a model. Networks are also trained as lib/Autodiff
// does.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PARTITION_RANDOMTRAINING_H
#define KERF_UNITTESTS_PARTITION_RANDOMTRAINING_H

#include "RandomGraph.h"

namespace kerf::test {

/// A module with a function @main whose inputs have a batch of `batch` samples
/// and whose ops do not mix them: layers of a network with random extras.
mlir::OwningOpRef<mlir::ModuleOp> makeNetwork(mlir::MLIRContext *context,
                                              Random &random, int numLayers,
                                              int64_t batch);

/// Adds loss, gradients of all weights and their update to @main. False if an
/// op has no gradient or nothing has one.
bool makeTrainingStep(mlir::ModuleOp module, Random &random);

/// The same by lib/Autodiff: a random loss, optimizer, clipping and skipping.
bool makeAutodiffStep(mlir::ModuleOp module, Random &random);

/// Inputs of such a step: rates are small and positive, labels are classes.
std::vector<interpret::Tensor> makeStepInputs(mlir::func::FuncOp main,
                                              Random &random);

} // namespace kerf::test

#endif // KERF_UNITTESTS_PARTITION_RANDOMTRAINING_H
