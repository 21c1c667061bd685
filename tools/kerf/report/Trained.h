//===- Trained.h - the list of trained parameters, for people ---*- C++ -*-===//
#ifndef KERF_TOOLS_TRAINED_H
#define KERF_TOOLS_TRAINED_H

#include "kerf/Autodiff/Autodiff.h"

#include <map>
#include <string>
#include <vector>

namespace kerf::tool {

/// "10 parameters", "1 parameter (in 3 parts)" where what is read of one is
/// trained part by part.
std::string parameterCount(const autodiff::AutodiffResult &result);

/// The optimizer with all its options but the learning rate.
std::string optimizerText(const autodiff::OptimizerSpec &optimizer);

/// Of --clip-norm: a number, or "off".
std::string clipText(double norm);

/// Lines that say which parameters are trained and which are not, and why.
/// Parameters whose names differ only in numbers are one entry, as
/// "layers.*.weight (24 matrices, 8.4 M elements)"; `verbose`: one entry each.
std::vector<std::string>
describeTrained(const autodiff::AutodiffResult &result,
                const std::map<std::string, std::vector<int64_t>> &stored,
                bool verbose);

} // namespace kerf::tool

#endif // KERF_TOOLS_TRAINED_H
