//===- EmulatedCall.cpp - one library call on the emulated GPU ------------===//
#include "EmulatedCall.h"

#include "Emulator.h"

#include "gtest/gtest.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace kerf;
using namespace kerf::test;

static std::string functionOf(const std::string &descriptor,
                              llvm::ArrayRef<size_t> inputs,
                              llvm::ArrayRef<size_t> results) {
  std::string arguments, names[2], types[2];
  size_t count = 0;
  for (bool isResult : {false, true})
    for (size_t bytes : isResult ? results : inputs) {
      std::string name = "%a" + std::to_string(count++),
                  type = "memref<" + std::to_string(bytes) + "xi8>",
                  comma = names[isResult].empty() ? "" : ", ";
      arguments += (count > 1 ? ", " : "") + name + ": " + type;
      names[isResult] += comma + name;
      types[isResult] += comma + type;
    }
  return "exec.func @f(" + arguments +
         ") attributes {num_inputs = " + std::to_string(inputs.size()) +
         " : i64, stage = 0 : i64, phase = \"forward\"} {\n"
         "  exec.library 0 {" +
         descriptor + "} (" + names[0] + ") -> (" + names[1] + ") : (" +
         types[0] + ") -> (" + types[1] + ")\n  exec.return\n}\n";
}

EmulatedCall::EmulatedCall(const std::string &descriptor,
                           llvm::ArrayRef<size_t> inputBytes,
                           llvm::ArrayRef<size_t> resultBytes)
    : parsed(functionOf(descriptor, inputBytes, resultBytes)),
      inputs(inputBytes.size()) {
  EXPECT_TRUE(parsed.module) << functionOf(descriptor, inputBytes, resultBytes);
  for (llvm::ArrayRef<size_t> list : {inputBytes, resultBytes})
    for (size_t bytes : list)
      buffers.push_back(std::make_unique<GuardedBuffer>(bytes));
}

void EmulatedCall::run(int64_t inPlace) const {
  ASSERT_TRUE(parsed.module);
  exec::LibraryOp call;
  parsed.module.get()->walk([&](exec::LibraryOp op) { call = op; });
  ASSERT_TRUE(isGpuKernelCall(call.getDescriptor()));
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
