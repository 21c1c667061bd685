//===- RunNative.h - a module compiled and run in this process --*- C++ -*-===//
#ifndef KERF_UNITTESTS_LOWER_RUNNATIVE_H
#define KERF_UNITTESTS_LOWER_RUNNATIVE_H

#include "kerf/Interpret/Interpret.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace kerf::test {

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string &name) const { return path + "/" + name; }

private:
  std::string path;
};

/// Writes the weights of a module to a file and points the nn.weight ops and
/// kerf.files at it.
void storeWeights(mlir::ModuleOp module, const interpret::Weights &weights,
                  const std::string &path);

/// Lowers, compiles, packages into `folder` and runs. Anything that fails is
/// the text; else it is empty and `outputs` are set.
std::string runNative(mlir::ModuleOp module,
                      llvm::ArrayRef<interpret::Tensor> inputs,
                      const std::string &folder, bool weightsInPlace,
                      std::vector<interpret::Tensor> &outputs);

} // namespace kerf::test

#endif // KERF_UNITTESTS_LOWER_RUNNATIVE_H
