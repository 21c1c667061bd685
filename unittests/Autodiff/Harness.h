//===- Harness.h - a model as training steps in the interpreter -*- C++ -*-===//
#ifndef KERF_UNITTESTS_AUTODIFF_HARNESS_H
#define KERF_UNITTESTS_AUTODIFF_HARNESS_H

#include "kerf/Autodiff/Autodiff.h"
#include "kerf/Interpret/Interpret.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>

namespace kerf::test {

class TrainingModel {
public:
  TrainingModel();

  /// Imports and differentiates; fails the test where that fails or where the
  /// contract is broken.
  void load(const std::string &path, const std::map<std::string, int64_t> &dims,
            const autodiff::AutodiffOptions &options);

  /// The data of an input of this shape.
  using Input = llvm::function_ref<interpret::Tensor(llvm::StringRef name,
                                                     llvm::ArrayRef<int64_t>)>;
  /// The next step: the results of @main.
  std::vector<interpret::Tensor> step(Input input);
  /// A parameter as it is now.
  interpret::Tensor parameter(llvm::StringRef name);

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  autodiff::OptimizerSpec optimizer;
  interpret::State state;
  int64_t stepsDone = 0;
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_AUTODIFF_HARNESS_H
