//===- EmulatedCall.cpp - one library call on the emulated GPU ------------===//
#include "EmulatedCall.h"

#include "Emulator.h"

#include "gtest/gtest.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

static std::string functionOf(const std::string &call,
                              llvm::ArrayRef<std::string> inputs,
                              llvm::ArrayRef<std::string> results) {
  std::string arguments;
  size_t count = 0;
  for (llvm::ArrayRef<std::string> types : {inputs, results})
    for (const std::string &type : types) {
      arguments +=
          (count ? ", %a" : "%a") + std::to_string(count) + ": " + type;
      ++count;
    }
  return "exec.func @f(" + arguments +
         ") attributes {num_inputs = " + std::to_string(inputs.size()) +
         " : i64, stage = 0 : i64, phase = #exec<phase forward>} {\n  " + call +
         "\n  exec.return\n}\n";
}

EmulatedCall::EmulatedCall(const std::string &call,
                           llvm::ArrayRef<std::string> inputTypes,
                           llvm::ArrayRef<std::string> resultTypes)
    : parsed(functionOf(call, inputTypes, resultTypes)),
      inputs(inputTypes.size()) {
  if (!parsed.module) {
    ADD_FAILURE() << functionOf(call, inputTypes, resultTypes);
    return;
  }
  auto function = *parsed.module->getOps<exec::FuncOp>().begin();
  for (Type type : function.getArgumentTypes())
    buffers.push_back(std::make_unique<GuardedBuffer>(
        exec::sizeBytes(cast<MemRefType>(type))));
}

void EmulatedCall::run(int64_t inPlace) const {
  ASSERT_TRUE(parsed.module);
  exec::LibraryCallInterface call;
  parsed.module.get()->walk([&](exec::LibraryCallInterface op) { call = op; });
  ASSERT_TRUE(isGpuKernelCall(call));
  Emulator emulator;
  ASSERT_TRUE(emulator.add(call, "c"));
  ASSERT_EQ(emulator.compile(), "");
  std::vector<void *> pointers;
  for (const std::unique_ptr<GuardedBuffer> &buffer : buffers)
    pointers.push_back(buffer->data());
  if (inPlace >= 0)
    pointers[inputs] = pointers[inPlace];
  FailureRecord record = {};
  ASSERT_EQ(emulator.launch("c", pointers, record, 1), "");
}
