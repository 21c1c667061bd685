//===- GpuHarness.cpp - the kernels of a test on the emulated GPU ---------===//
#include "Emulator.h"
#include "Harness.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace kerf;

namespace kerf::test {

std::string checkOnGpu(ModuleOp module, uint64_t seed, double tolerance) {
  if (failed(module.verify()))
    return "does not verify";
  Emulator emulator;
  for (auto kernel : module.getOps<exec::KernelOp>())
    if (!emulator.add(kernel, kernel.getSymName().str()))
      return "no code for @" + kernel.getSymName().str();
  if (std::string error = emulator.compile(); !error.empty())
    return error;
  for (auto kernel : module.getOps<exec::KernelOp>()) {
    Result result;
    fillInputs(kernel, seed, result);
    evaluate(kernel, result);
    Buffers buffers(kernel, result);
    FailureRecord record = {};
    std::string difference =
        emulator.launch(kernel.getSymName().str(), buffers.ios, record, seed);
    result.status = record.state ? record.code : 0;
    buffers.read(kernel, result);
    if (difference.empty())
      difference = compare(kernel, result, tolerance);
    if (difference.empty())
      continue;
    llvm::raw_string_ostream stream(difference);
    stream << "\n";
    kernel.print(stream);
    return difference;
  }
  return "";
}

} // namespace kerf::test
