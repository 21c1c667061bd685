//===- Harness.h - compiles kernels, runs them, compares --------*- C++ -*-===//
//
// Each exec.kernel of a module is compiled with a function that launches it,
// the shared object is loaded, and the launch is answered here: in random
// pieces, in random order. Every buffer ends at a page that may not be touched.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CODEGEN_HARNESS_H
#define KERF_UNITTESTS_CODEGEN_HARNESS_H

#include "KernelFunctions.h"
#include "Reference.h"

#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/rt/program.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <random>

namespace kerf::test {

/// A buffer whose last byte is followed by an inaccessible page.
class GuardedBuffer {
public:
  explicit GuardedBuffer(int64_t bytes);
  ~GuardedBuffer();
  GuardedBuffer(const GuardedBuffer &) = delete;
  char *data() const { return begin; }

private:
  char *mapping, *begin;
  size_t mapped;
};

/// Loads a shared object from memory.
class Library {
public:
  explicit Library(const std::string &bytes);
  ~Library();
  void *symbol(const std::string &name) const;

private:
  void *handle = nullptr;
};

/// The runtime's table; what was called is in the fields.
struct Host {
  kerf_program_api api;
  std::mt19937_64 random{1};
  int64_t launches = 0, iterations = 0;
  int32_t failCode = 0;
  std::string failNode;
  int64_t failDetail = 0, failSize = 0;
  Host();
};

void store(mlir::Type element, double value, char *at);
double fetch(mlir::Type element, const char *at);

/// A context with the dialects.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A text as a module, null if it does not parse.
struct Parsed {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module;
  explicit Parsed(const std::string &text)
      : module(mlir::parseSourceString<mlir::ModuleOp>(text, context.get())) {}
  /// The first one.
  exec::KernelOp kernel() { return *module->getOps<exec::KernelOp>().begin(); }
};

struct Result {
  std::vector<reference::Tensor> inputs, outputs, expected;
  Host host;
  int32_t status = 0;
};

/// What a kernel is launched with: inputs that are filled, and outputs.
/// With `input`, output `output` lies in its buffer.
struct Buffers {
  std::vector<std::unique_ptr<GuardedBuffer>> memory;
  std::vector<void *> ios;
  Buffers(exec::KernelOp kernel, const Result &result, int64_t input = -1,
          int64_t output = -1);
  /// Fills `outputs`.
  void read(exec::KernelOp kernel, Result &result) const;
};

/// Random inputs, in the ranges of `test.low` and `test.high`.
void fillInputs(exec::KernelOp kernel, uint64_t seed, Result &result);

/// As `check`, by the emulated GPU (unittests/Gpu).
std::string checkOnGpu(mlir::ModuleOp module, uint64_t seed, double tolerance);

/// Compiles the module and runs each kernel on random inputs, whose range the
/// argument attributes `test.low` and `test.high` may give. Returns the first
/// difference from the reference, or an empty string.
std::string check(mlir::ModuleOp module, const std::string &cpu, uint64_t seed,
                  double tolerance = 0);
/// The same of a kernel in text.
std::string check(const std::string &kernel, const std::string &cpu = "host",
                  uint64_t seed = 1, double tolerance = 0);

/// Runs one kernel of a loaded program on given inputs.
/// With `input`, output `output` lies in its buffer.
void run(exec::KernelOp kernel, const Library &library, Result &result,
         int64_t input = -1, int64_t output = -1);
/// Fills `expected`.
void evaluate(exec::KernelOp kernel, Result &result);
std::string compare(exec::KernelOp kernel, const Result &result,
                    double tolerance);

} // namespace kerf::test

#endif // KERF_UNITTESTS_CODEGEN_HARNESS_H
