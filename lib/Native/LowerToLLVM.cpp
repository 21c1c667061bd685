//===- LowerToLLVM.cpp - upstream passes down to LLVM ---------------------===//
#include "DecomposeOps.h"
#include "kerf/Native/Native.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

void kerf::native::buildLowerToLLVM(OpPassManager &passes) {
  passes.addPass(createDecomposeOps());
  passes.addPass(createConvertElementwiseToLinalgPass());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.allowReturnAllocsFromLoops = true;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  passes.addPass(bufferization::createOneShotBufferizePass(bufferize));
  bufferization::BufferResultsToOutParamsPassOptions outs;
  outs.modifyPublicFunctions = true;
  passes.addPass(bufferization::createBufferResultsToOutParamsPass(outs));
  bufferization::buildBufferDeallocationPipeline(passes);
  passes.addPass(createConvertBufferizationToMemRefPass());
  passes.addPass(createConvertLinalgToLoopsPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(memref::createExpandStridedMetadataPass());
  passes.addPass(createLowerAffinePass());
  passes.addPass(createConvertMathToLibmPass());
  passes.addPass(createConvertToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}
