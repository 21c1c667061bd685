//===- ProgramTest.cpp - program.so as a whole ----------------------------===//
//
// What it imports (nothing), how wide its vectors are, that it is the same
// every time, and that functions call the runtime's table as they should.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "kerf/NN/NN.h"

#include "gtest/gtest.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstddef>

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

const char *kEverything = R"(
exec.kernel @math(%x: tensor<100xf32>, %y: tensor<100xf64>) -> (tensor<100xf32>, tensor<100xf64>) attributes {index = 0 : i64, node = "/math"} {
  %a = nn.exp %x : tensor<100xf32>
  %b = nn.pow %a, %x : tensor<100xf32>
  %c = nn.sin %b : tensor<100xf32>
  %d = nn.rem %c, %x : tensor<100xf32>
  %e = nn.erf %y : tensor<100xf64>
  %f = nn.floor %e : tensor<100xf64>
  %g = nn.round %d : tensor<100xf32>
  exec.yield %g, %f : tensor<100xf32>, tensor<100xf64>
}
exec.kernel @casts(%x: tensor<100xf64>, %y: tensor<100xi64>, %z: tensor<100xui8>) -> (tensor<100xf16>, tensor<100xbf16>, tensor<100xf16>, tensor<100xi8>) attributes {index = 1 : i64, node = "/casts"} {
  %a = nn.cast %x : (tensor<100xf64>) -> tensor<100xf16>
  %b = nn.cast %y : (tensor<100xi64>) -> tensor<100xbf16>
  %c = nn.cast %z : (tensor<100xui8>) -> tensor<100xf16>
  %d = nn.cast %x : (tensor<100xf64>) -> tensor<100xi8>
  exec.yield %a, %b, %c, %d : tensor<100xf16>, tensor<100xbf16>, tensor<100xf16>, tensor<100xi8>
}
exec.kernel @zeros() -> tensor<100000xf32> attributes {index = 2 : i64, node = "/zeros"} {
  %a = nn.constant dense<0.0> : tensor<100000xf32>
  exec.yield %a : tensor<100000xf32>
}
exec.kernel @copy(%x: tensor<100000xf32>) -> tensor<100000xf32> attributes {index = 3 : i64, node = "/copy"} {
  %a = nn.reshape %x : (tensor<100000xf32>) -> tensor<100000xf32>
  exec.yield %a : tensor<100000xf32>
}
exec.kernel @division(%x: tensor<100xi64>, %y: tensor<100xi64>) -> tensor<100xi64> attributes {index = 4 : i64, node = "/division"} {
  %a = nn.div %x, %y : tensor<100xi64>
  exec.yield %a : tensor<100xi64>
}
exec.kernel @softmax(%x: tensor<4x100xf32>) -> tensor<4x100xf32> attributes {index = 5 : i64, node = "/softmax"} {
  %a = nn.softmax %x dim 1 : tensor<4x100xf32>
  exec.yield %a : tensor<4x100xf32>
}
exec.kernel @again(%x: tensor<4x100xf32>) -> tensor<4x100xf32> attributes {index = 6 : i64, node = "/softmax_2"} {
  %a = nn.softmax %x dim 1 : tensor<4x100xf32>
  exec.yield %a : tensor<4x100xf32>
}
)";

Program compile(const std::string &text, CodegenOptions options = {}) {
  Parsed parsed(text);
  addFunctions(*parsed.module);
  auto program = compileProgram(*parsed.module, options);
  EXPECT_TRUE(succeeded(program));
  return succeeded(program) ? *program : Program();
}

TEST(Program, OffsetsOfTheTable) {
  // codegen::ApiOffset.
  EXPECT_EQ(offsetof(kerf_program_api, launch), 8u);
  EXPECT_EQ(offsetof(kerf_program_api, library), 16u);
  EXPECT_EQ(offsetof(kerf_program_api, collective), 24u);
  EXPECT_EQ(offsetof(kerf_program_api, collective_start), 32u);
  EXPECT_EQ(offsetof(kerf_program_api, collective_wait), 40u);
  EXPECT_EQ(offsetof(kerf_program_api, copy), 56u);
  EXPECT_EQ(offsetof(kerf_program_api, fail), 64u);
  EXPECT_EQ(offsetof(kerf_program_api, store_shard_index), 72u);
}

TEST(Program, ImportsNothing) {
  for (const char *cpu : {"host", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CodegenOptions options;
    options.cpu = cpu;
    Program program = compile(kEverything, options);
    auto object = llvm::object::ObjectFile::createELFObjectFile(
        llvm::MemoryBufferRef(program.sharedObject, "program.so"));
    ASSERT_TRUE(bool(object));
    auto *elf = cast<llvm::object::ELFObjectFileBase>(object->get());
    int64_t defined = 0;
    for (auto symbol : elf->getDynamicSymbolIterators()) {
      uint32_t flags = cantFail(symbol.getFlags());
      std::string name = cantFail(symbol.getName()).str();
      if (name.empty())
        continue;
      EXPECT_FALSE(flags & llvm::object::SymbolRef::SF_Undefined) << name;
      // Kernels are hidden: only functions are exported.
      EXPECT_EQ(name.substr(0, 4), "run_");
      ++defined;
    }
    EXPECT_EQ(defined, 7);
  }
}

TEST(Program, VectorsAsWideAsTheTarget) {
  struct Case {
    const char *cpu, *wanted, *unwanted;
  };
  for (Case c :
       {Case{"x86-64-v4", "%zmm", "%none"}, Case{"x86-64-v3", "%ymm", "%zmm"},
        Case{"x86-64-v2", "%xmm", "%ymm"}}) {
    llvm::SmallString<128> directory;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("kerf-dump", directory));
    CodegenOptions options;
    options.cpu = c.cpu;
    options.dumpDir = directory.str().str();
    compile(kEverything, options);
    for (const char *kernel : {"math", "softmax"}) {
      auto text =
          llvm::MemoryBuffer::getFile(directory + "/kernel." + kernel + ".s");
      ASSERT_TRUE(bool(text));
      EXPECT_TRUE((*text)->getBuffer().contains(c.wanted)) << c.cpu;
      EXPECT_FALSE((*text)->getBuffer().contains(c.unwanted)) << c.cpu;
      EXPECT_FALSE((*text)->getBuffer().contains("@PLT")) << c.cpu;
    }
    llvm::sys::fs::remove_directories(directory);
  }
}

TEST(Program, SameBytesAndMergedKernels) {
  CodegenOptions one, four;
  one.threads = 1;
  four.threads = 4;
  Program first = compile(kEverything, one),
          second = compile(kEverything, four);
  EXPECT_EQ(first.sharedObject, second.sharedObject);
  EXPECT_EQ(first.numKernels, 6);
}

/// The text of a kernel that adds a slice that begins at `starts`, and `more`
/// relative to it, to an input.
static std::string step(int number, const std::string &starts,
                        const std::string &more, const char *type) {
  std::string text = R"(
exec.kernel @step_NUMBER(%x: tensor<3x5x7xTYPE>, %y: tensor<3x1x4xTYPE>) -> tensor<3x1x4xTYPE> attributes {index = NUMBER : i64, node = "/step"} {
  %a = nn.slice %x from [STARTS] : (tensor<3x5x7xTYPE>) -> tensor<3x1x4xTYPE>
  %b = nn.slice %x from [MORE] : (tensor<3x5x7xTYPE>) -> tensor<3x1x4xTYPE>
  %c = nn.add %a, %y : tensor<3x1x4xTYPE>
  %d = nn.mul %b, %c : tensor<3x1x4xTYPE>
  exec.yield %d : tensor<3x1x4xTYPE>
}
)";
  for (auto &[name, value] : std::vector<std::pair<std::string, std::string>>{
           {"NUMBER", std::to_string(number)},
           {"STARTS", starts},
           {"MORE", more},
           {"TYPE", type}})
    for (size_t at; (at = text.find(name)) != text.npos;)
      text.replace(at, name.size(), value);
  return text;
}

// Kernels that read other parts of their buffers are one, also where a part
// begins at any element; every buffer ends at a page that may not be touched.
// Those whose parts lie otherwise to each other are not the same.
TEST(Program, KernelsOfStepsAreMerged) {
  for (const char *type : {"f32", "bf16", "f16", "f64"}) {
    std::string text;
    for (int t = 0; t < 5; ++t)
      text += step(t, "0, " + std::to_string(t) + ", 0",
                   "0, " + std::to_string(t) + ", 3", type);
    for (int t = 0; t < 3; ++t)
      text += step(5 + t, "0, " + std::to_string(t + 1) + ", 2",
                   "0, " + std::to_string(t) + ", 1", type);
    text += R"(
exec.kernel @all_8(%x: tensor<3x5x7xTYPE>) -> tensor<3x5x7xTYPE> attributes {index = 8 : i64, node = "/all"} {
  %a = nn.slice %x from [0, 0, 0] : (tensor<3x5x7xTYPE>) -> tensor<3x5x7xTYPE>
  %b = nn.mul %a, %x : tensor<3x5x7xTYPE>
  exec.yield %b : tensor<3x5x7xTYPE>
})";
    for (size_t at; (at = text.find("TYPE")) != text.npos;)
      text.replace(at, 4, type);
    EXPECT_EQ(compile(text).numKernels, 3) << type;
    Parsed parsed(text);
    EXPECT_EQ(check(*parsed.module, "host", 1), "") << type;
  }
}

// The last element of a reversed slice is what its start names: it stays.
TEST(Program, SlicesThroughReshapesAndBackwards) {
  std::string text;
  for (int t = 0; t < 3; ++t) {
    std::string number = std::to_string(t), at = std::to_string(2 + t);
    text += "exec.kernel @forward_" + number +
            "(%x: tensor<6x4xf32>) -> tensor<4xf32> attributes {index = " +
            std::to_string(2 * t) + R"( : i64, node = ""} {
  %r = nn.reshape %x : (tensor<6x4xf32>) -> tensor<24xf32>
  %s = nn.slice %r from [)" +
            at + R"(] : (tensor<24xf32>) -> tensor<4xf32>
  %a = nn.neg %s : tensor<4xf32>
  exec.yield %a : tensor<4xf32>
}
exec.kernel @backwards_)" +
            number +
            "(%x: tensor<6x4xf32>) -> tensor<2x4xf32> attributes {index = " +
            std::to_string(2 * t + 1) + R"( : i64, node = ""} {
  %s = nn.slice %x from [)" +
            at +
            R"(, 0] strides [-1, 1] : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %a = nn.neg %s : tensor<2x4xf32>
  exec.yield %a : tensor<2x4xf32>
}
)";
  }
  EXPECT_EQ(compile(text).numKernels, 4);
  Parsed parsed(text);
  EXPECT_EQ(check(*parsed.module, "host", 1), "");
}

TEST(Program, UnknownCpuIsRefused) {
  Parsed parsed(kEverything);
  std::string message;
  ScopedDiagnosticHandler handler(parsed.context.get(), [&](Diagnostic &d) {
    message = d.str();
    return success();
  });
  CodegenOptions options;
  options.cpu = "pentium-9";
  EXPECT_TRUE(failed(compileProgram(*parsed.module, options)));
  EXPECT_NE(message.find("unknown target cpu 'pentium-9'"), message.npos);
  options.cpu = "core2";
  EXPECT_TRUE(failed(compileProgram(*parsed.module, options)));
  EXPECT_NE(message.find("has no SSE4.1"), message.npos);
}

TEST(Program, InPlaceWhereAllowed) {
  const char *text = R"(
exec.kernel @residual(%x: tensor<9x96xf32>, %y: tensor<9x96xf32>, %s: tensor<96xf32>) -> (tensor<9x96xf32>, tensor<9x96xf32>) attributes {index = 0 : i64, node = ""} {
  %a = nn.add %x, %y : tensor<9x96xf32>
  %r = nn.rms_norm %a, %s dim 1 epsilon 1.0e-05 : tensor<9x96xf32>, tensor<96xf32>
  exec.yield %a, %r : tensor<9x96xf32>, tensor<9x96xf32>
}
exec.kernel @mixed(%x: tensor<30x30xf32>, %y: tensor<30x1xf32>) -> tensor<30x30xf32> attributes {index = 0 : i64, node = ""} {
  %t = nn.transpose %x perm [1, 0] : (tensor<30x30xf32>) -> tensor<30x30xf32>
  %a = nn.add %t, %x : tensor<30x30xf32>
  %b = nn.add %a, %y : (tensor<30x30xf32>, tensor<30x1xf32>) -> tensor<30x30xf32>
  exec.yield %b : tensor<30x30xf32>
}
exec.kernel @column_softmax(%x: tensor<9x96xf32>) -> tensor<9x96xf32> attributes {index = 0 : i64, node = ""} {
  %r = nn.softmax %x dim 0 : tensor<9x96xf32>
  exec.yield %r : tensor<9x96xf32>
}
)";
  Parsed parsed(text);
  addFunctions(*parsed.module);
  auto program = compileProgram(*parsed.module, {});
  ASSERT_TRUE(succeeded(program));
  Library library(program->sharedObject);
  int64_t shared = 0;
  for (exec::KernelOp kernel : parsed.module->getOps<exec::KernelOp>()) {
    llvm::SmallVector<Operation *> ops;
    for (Operation &op : kernel.getBody().front().without_terminator())
      ops.push_back(&op);
    KernelVerdict verdict = classifyKernel(ops);
    for (size_t i = 0; i < verdict.inputs.size(); ++i)
      for (size_t o = 0; o < verdict.outputs.size(); ++o) {
        if (!mayShareBuffer(ops, i, o))
          continue;
        ++shared;
        Result result;
        for (Type type : kernel.getArgumentTypes()) {
          reference::Tensor input;
          auto tensor = cast<RankedTensorType>(type);
          input.shape.assign(tensor.getShape().begin(),
                             tensor.getShape().end());
          for (int64_t at = 0; at < tensor.getNumElements(); ++at)
            input.data.push_back((at * 37 % 101) / 32.0 - 1);
          result.inputs.push_back(input);
        }
        evaluate(kernel, result);
        run(kernel, library, result,
            cast<BlockArgument>(verdict.inputs[i]).getArgNumber(), o);
        EXPECT_EQ(compare(kernel, result, 0), "");
      }
  }
  // x and y with either output, nothing of @mixed, the softmax.
  EXPECT_EQ(shared, 5);
}

struct Recorder {
  kerf_program_api api = {};
  std::vector<std::string> calls;
  std::string failAt;
};

TEST(Program, FunctionsCallTheTable) {
  Parsed parsed(R"(
module attributes {exec.mesh = #dist<mesh_shape["tp"=2]>} {
exec.kernel @k(%a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> attributes {index = 4 : i64, node = "/k"} {
  %0 = nn.add %a, %b : tensor<3xf32>
  exec.yield %0 : tensor<3xf32>
}
exec.func @f(%x: memref<2x3xf32>, %y: memref<3xf32>) attributes {num_inputs = 1 : i64, scratch = 256 : i64, stage = 0 : i64, phase = #exec<phase forward>} {
  %p = exec.param 2 : memref<3xf32>
  %t = exec.arena at 128 : memref<3xf32>
  %i = exec.arena at 192 : memref<i64>
  %row = exec.view %x at 12 : memref<2x3xf32> to memref<3xf32>
  exec.launch @k(%row, %p) -> (%t) : (memref<3xf32>, memref<3xf32>) -> memref<3xf32>
  exec.shard_index 1 ["tp"] -> %i : memref<i64>
  exec.collective 3 all_reduce sum ["tp"] %t -> %t bytes 24 purpose activation phase forward node "/k"
    : memref<3xf32> -> memref<3xf32>
  %e = exec.collective_start 5 all_reduce sum ["tp"] %t -> %y bytes 24 purpose activation phase forward node "/k"
    : memref<3xf32> -> memref<3xf32>
  exec.collective_wait %e
  exec.copy %t -> %y : memref<3xf32> -> memref<3xf32>
  exec.return
}
}
)");
  ASSERT_TRUE(parsed.module);
  auto program = compileProgram(*parsed.module, {});
  ASSERT_TRUE(succeeded(program));
  Library library(program->sharedObject);
  auto function =
      reinterpret_cast<kerf_program_function_t>(library.symbol("f"));
  ASSERT_TRUE(function);
  Recorder recorder;
  auto note = [](kerf_program_context *context, const std::string &call) {
    auto &r = *reinterpret_cast<Recorder *>(context);
    r.calls.push_back(call);
    return r.failAt == call ? 7 : 0;
  };
  static auto record = note;
  recorder.api.launch = [](kerf_program_context *c, int32_t index,
                           kerf_kernel_t kernel, void *const *buffers, int32_t,
                           const int64_t *scalars, int64_t count,
                           int64_t) -> int32_t {
    kernel(buffers, scalars, 0, count);
    return record(c, "launch " + std::to_string(index));
  };
  recorder.api.collective = [](kerf_program_context *c, int32_t index,
                               const void *, void *) -> int32_t {
    return record(c, "collective " + std::to_string(index));
  };
  recorder.api.collective_start = [](kerf_program_context *c, int32_t index,
                                     const void *, void *) -> int32_t {
    return record(c, "start " + std::to_string(index));
  };
  recorder.api.collective_wait = [](kerf_program_context *c,
                                    int32_t index) -> int32_t {
    return record(c, "wait " + std::to_string(index));
  };
  recorder.api.store_shard_index = [](kerf_program_context *c, int32_t index,
                                      void *to) -> int32_t {
    int64_t value = 42;
    memcpy(to, &value, sizeof(value));
    return record(c, "shard_index " + std::to_string(index));
  };
  recorder.api.copy = [](kerf_program_context *c, const void *from, void *to,
                         int64_t bytes) -> int32_t {
    memcpy(to, from, bytes);
    return record(c, "copy " + std::to_string(bytes));
  };
  float x[6] = {0, 0, 0, 1, 2, 3}, y[3] = {}, p[3] = {10, 20, 30};
  alignas(64) char scratch[256] = {};
  void *params[] = {nullptr, nullptr, p}, *ios[] = {x, y};
  auto *context = reinterpret_cast<kerf_program_context *>(&recorder);
  EXPECT_EQ(function(&recorder.api, context, params, ios, scratch), 0);
  std::vector<std::string> wanted = {"launch 4",     "shard_index 1",
                                     "collective 3", "start 5",
                                     "wait 5",       "copy 12"};
  EXPECT_EQ(recorder.calls, wanted);
  EXPECT_EQ(y[0], 11);
  EXPECT_EQ(y[2], 33);
  EXPECT_EQ(*reinterpret_cast<int64_t *>(scratch + 192), 42);
  // A failure ends the function at once, with its status.
  recorder.calls.clear();
  recorder.failAt = "collective 3";
  EXPECT_EQ(function(&recorder.api, context, params, ios, scratch), 7);
  EXPECT_EQ(recorder.calls.size(), 3u);
}

} // namespace
