//===- RunNative.h - a module compiled and run in this process --*- C++ -*-===//
#ifndef KERF_UNITTESTS_LOWER_RUNNATIVE_H
#define KERF_UNITTESTS_LOWER_RUNNATIVE_H

#include "kerf/Interpret/Interpret.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

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

/// The same for several steps of one session, each with inputs of its own:
/// outputs of every step, and the parameters that steps write, by name.
struct NativeSteps {
  std::vector<std::vector<interpret::Tensor>> inputs, outputs;
  std::map<std::string, interpret::Tensor> parameters;
  int threads = 1;
};
std::string runNativeSteps(mlir::ModuleOp module, const std::string &folder,
                           NativeSteps &steps);

} // namespace kerf::test

#endif // KERF_UNITTESTS_LOWER_RUNNATIVE_H
