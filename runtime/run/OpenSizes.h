//===- OpenSizes.h - inputs of any size that a package takes ----*- C++ -*-===//
//
// A package may have programs for several sizes of a dimension. What files give
// says which of them is run; its inputs are filled up, and its outputs cut.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_RUN_OPENSIZES_H
#define KERF_RUNTIME_RUN_OPENSIZES_H

#include "kerf/rt/inputs.h"

namespace kerf::rt {

/// The open dimensions of a package; none if it has one program.
std::vector<kerf_open_dim_t> openDimsOf(const kerf_package_t *package);

/// The size of the program that takes `size` of the dimension, which it does.
int64_t programSize(const kerf_open_dim_t &dim, int64_t size);

/// Makes the sizes of the dimensions open in specs of all inputs.
void openSpecs(const std::vector<kerf_open_dim_t> &dims,
               std::vector<InputSpec> &specs);

/// The size of each dimension by what is given and by `bindings`, NAME=SIZE,
/// which must agree; of one that nothing tells, the largest, and `notes` says
/// so. False with `error` if something is wrong.
bool findSizes(const std::vector<kerf_open_dim_t> &dims,
               const std::vector<std::string> &bindings,
               const std::vector<InputSpec> &specs,
               const std::vector<std::optional<GivenInput>> &given,
               std::vector<int64_t> &sizes, std::vector<std::string> &notes,
               std::string &error);

/// The tensor with as many rows as `shape` has in every axis: the first ones,
/// or, where there are too few, the last one again and again.
HostTensor resized(const HostTensor &tensor, const std::vector<int64_t> &shape);

} // namespace kerf::rt

#endif // KERF_RUNTIME_RUN_OPENSIZES_H
