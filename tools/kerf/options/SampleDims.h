//===- SampleDims.h - where inputs of training have samples -----*- C++ -*-===//
#ifndef KERF_TOOLS_SAMPLEDIMS_H
#define KERF_TOOLS_SAMPLEDIMS_H

#include "../Options.h"

#include "kerf/Import/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace kerf::tool {

/// Arrays of data have their samples along dimension 0; refuses an input that
/// has them along another.
[[noreturn]] void refuseBatch(const std::string &input, int64_t dim);

/// Whether the user says that an input has no samples, or what it is.
bool isSaidToBeShared(const ImportOptions &options, const std::string &input);

/// What to do about an input whose leading size is not the batch.
std::vector<std::string> hintOnShared(const std::string &input, int64_t size);

/// Refuses an input that begins with `size`, of which nobody says whether it
/// has samples: the others count them by an open size or by `samples`.
[[noreturn]] void refuseUntold(const std::string &model,
                               const std::string &input, int64_t size,
                               int64_t samples);

/// Refuses a matrix that counts samples along both dimensions (a graph whose
/// nodes are the samples), unless they stay in their order: shuffling moves its
/// rows and not its columns. Of tensors of more dimensions that is said.
void requireSamplesApart(const Options &options, const ImportReport &report);

/// A square matrix beside other inputs may be that of a graph whose nodes are
/// as many as the batch has samples, by chance.
void noteSquare(const Options &options, const ImportReport &report,
                mlir::func::FuncOp main);

/// Binds symbolic leading dimensions to --batch-size, and the second one of an
/// input of tokens to --sequence-length.
void bindSizes(Options &options, const ImportReport &report);

/// Which dimension was taken for the samples where others are open too and no
/// name tells; empty: there is no doubt.
std::string takenForSamples(const Options &options, const ImportReport &report);

} // namespace kerf::tool

#endif // KERF_TOOLS_SAMPLEDIMS_H
