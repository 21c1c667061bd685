#include "Harness.h"

#include "kerf/NN/NN.h"
#include "kerf/Support/NarrowTypes.h"

#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace kerf;
using reference::Tensor;

namespace kerf::test {

GuardedBuffer::GuardedBuffer(int64_t bytes) {
  size_t page = sysconf(_SC_PAGESIZE);
  size_t body = (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
  mapped = body + 2 * page;
  mapping = static_cast<char *>(
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(mapping + page, body, PROT_READ | PROT_WRITE);
  begin = mapping + page + body - bytes;
#ifdef KERF_TEST_GPU
  // Buffers start where vectors may: less than a vector of slack at the end.
  begin -= reinterpret_cast<uintptr_t>(begin) % 16;
#endif
  memset(begin, 0x7b, bytes);
}

GuardedBuffer::~GuardedBuffer() { munmap(mapping, mapped); }

Library::Library(const std::string &bytes) {
  char path[] = "/tmp/kerf-test-XXXXXX";
  int file = mkstemp(path);
  if (write(file, bytes.data(), bytes.size()) != (ssize_t)bytes.size())
    std::abort();
  close(file);
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    llvm::errs() << dlerror() << "\n";
  unlink(path);
}

Library::~Library() {
  if (handle)
    dlclose(handle);
}

void *Library::symbol(const std::string &name) const {
  return handle ? dlsym(handle, name.c_str()) : nullptr;
}

static Host &hostOf(kerf_program_context *context) {
  return *reinterpret_cast<Host *>(context);
}

Host::Host() {
  memset(&api, 0, sizeof(api));
  api.abi_version = KERF_PROGRAM_ABI_VERSION;
  api.struct_size = sizeof(api);
  api.launch = [](kerf_program_context *context, int32_t, kerf_kernel_t kernel,
                  void *const *buffers, int32_t, const int64_t *scalars,
                  int64_t count, int64_t grain) -> int32_t {
    Host &host = hostOf(context);
    ++host.launches;
    host.iterations += count;
    std::vector<int64_t> cuts = {0, count};
    for (int cut = 0; cut < 3; ++cut)
      cuts.push_back(host.random() % (count + 1));
    std::sort(cuts.begin(), cuts.end());
    for (int piece : {2, 0, 3, 1})
      kernel(buffers, scalars, cuts[piece], cuts[piece + 1]);
    return host.failCode;
  };
  api.fail = [](kerf_program_context *context, int32_t code, const char *node,
                int64_t detail) -> int32_t {
    Host &host = hostOf(context);
    if (!host.failCode) {
      host.failCode = code;
      host.failNode = node ? node : "";
      host.failDetail = detail;
    }
    return code;
  };
  api.fail_index = [](kerf_program_context *context, const char *node,
                      int64_t index, int64_t size) -> int32_t {
    Host &host = hostOf(context);
    if (!host.failCode)
      host.failSize = size;
    return host.api.fail(context, KERF_FAIL_INDEX_OUT_OF_RANGE, node, index);
  };
}

void store(Type element, double value, char *at) {
  if (auto type = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool loses;
    number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &loses);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    memcpy(at, &bits, std::max(1u, type.getWidth() / 8));
    return;
  }
  int64_t integer = static_cast<int64_t>(value);
  if (isNarrow(element)) // bits above a code are 0
    integer &= (1 << element.getIntOrFloatBitWidth()) - 1;
  memcpy(at, &integer, std::max(1u, element.getIntOrFloatBitWidth() / 8));
}

double fetch(Type element, const char *at) {
  uint64_t bits = 0;
  unsigned width = std::max(8u, element.getIntOrFloatBitWidth());
  memcpy(&bits, at, width / 8);
  if (isNarrow(element) && width > element.getIntOrFloatBitWidth()) {
    width = element.getIntOrFloatBitWidth();
    // A code that spills over is no number that is expected.
    if (bits >> width)
      return std::numeric_limits<double>::infinity();
  }
  if (auto type = dyn_cast<FloatType>(element)) {
    APFloat number(type.getFloatSemantics(), APInt(width, bits));
    bool loses;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
    return number.convertToDouble();
  }
  APInt value(width, bits);
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return isUnsigned ? double(value.getZExtValue())
                    : double(value.getSExtValue());
}

std::unique_ptr<MLIRContext> makeContext() {
  auto context = std::make_unique<MLIRContext>();
  context->loadDialect<nn::NNDialect, exec::ExecDialect>();
  context->allowUnregisteredDialects();
  return context;
}

void fillInputs(exec::KernelOp kernel, uint64_t seed, Result &result) {
  std::mt19937_64 random(seed);
  for (auto [at, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Type element = tensor.getElementType();
    bool isFloat = isa<FloatType>(element);
    double low = isFloat ? -2 : element.isUnsignedInteger() ? 0 : -5;
    double high = isFloat ? 2 : 6;
    if (element.isInteger(1))
      low = 0, high = 2;
    if (auto given = kernel.getArgAttrOfType<FloatAttr>(at, "test.low"))
      low = given.getValueAsDouble();
    if (auto given = kernel.getArgAttrOfType<FloatAttr>(at, "test.high"))
      high = given.getValueAsDouble();
    Tensor input;
    input.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    std::uniform_real_distribution<double> draw(low, high);
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      double value = draw(random);
      char bytes[8];
      store(element, isFloat ? value : std::floor(value), bytes);
      input.data.push_back(fetch(element, bytes));
    }
    result.inputs.push_back(std::move(input));
  }
}

void evaluate(exec::KernelOp kernel, Result &result) {
  llvm::DenseMap<Value, Tensor> values;
  Block &body = kernel.getBody().front();
  for (BlockArgument argument : body.getArguments())
    values[argument] = result.inputs[argument.getArgNumber()];
  for (Operation &op : body.without_terminator()) {
    std::vector<Tensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    values[op.getResult(0)] = reference::evaluate(&op, operands);
  }
  for (Value output : body.getTerminator()->getOperands())
    result.expected.push_back(values[output]);
}

Buffers::Buffers(exec::KernelOp kernel, const Result &result,
                 int64_t sharedInput, int64_t sharedOutput) {
  auto add = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bytes = exec::sizeBytes(tensor);
    memory.push_back(std::make_unique<GuardedBuffer>(bytes));
    ios.push_back(memory.back()->data());
    return exec::elementBytes(tensor.getElementType());
  };
  for (auto [type, input] :
       llvm::zip_equal(kernel.getArgumentTypes(), result.inputs)) {
    int64_t bytes = add(type);
    Type element = cast<RankedTensorType>(type).getElementType();
    for (int64_t i = 0; i < input.size(); ++i)
      store(element, input.data[i], memory.back()->data() + i * bytes);
  }
  size_t first = ios.size();
  for (Type type : kernel.getResultTypes())
    add(type);
  if (sharedInput >= 0)
    ios[first + sharedOutput] = ios[sharedInput];
}

void Buffers::read(exec::KernelOp kernel, Result &result) const {
  size_t first = kernel.getArgumentTypes().size();
  for (auto [at, type] : llvm::enumerate(kernel.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor output;
    output.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    int64_t bytes = exec::elementBytes(tensor.getElementType());
    for (int64_t i = 0; i < tensor.getNumElements(); ++i)
      output.data.push_back(
          fetch(tensor.getElementType(),
                static_cast<char *>(ios[first + at]) + i * bytes));
    result.outputs.push_back(std::move(output));
  }
}

void run(exec::KernelOp kernel, const Library &library, Result &result,
         int64_t sharedInput, int64_t sharedOutput) {
  auto function = reinterpret_cast<kerf_program_function_t>(
      library.symbol("run_" + kernel.getSymName().str()));
  if (!function) {
    result.status = -1;
    return;
  }
  Buffers buffers(kernel, result, sharedInput, sharedOutput);
  result.status = function(
      &result.host.api, reinterpret_cast<kerf_program_context *>(&result.host),
      nullptr, buffers.ios.data(), nullptr);
  buffers.read(kernel, result);
}

std::string compare(exec::KernelOp kernel, const Result &result,
                    double tolerance) {
  if (result.status)
    return "status " + std::to_string(result.status);
  for (size_t at = 0; at < result.outputs.size(); ++at) {
    Type element =
        cast<RankedTensorType>(kernel.getResultTypes()[at]).getElementType();
    double relative = element.isF64()    ? 1e-11
                      : element.isF32()  ? 2e-5
                      : element.isF16()  ? 4e-3
                      : element.isBF16() ? 3e-2
                                         : 0;
    if (tolerance && isa<FloatType>(element))
      relative = tolerance;
    for (int64_t i = 0; i < result.outputs[at].size(); ++i) {
      double got = result.outputs[at].data[i];
      double want = result.expected[at].data[i];
      if (got == want || (std::isnan(got) && std::isnan(want)))
        continue;
      if (std::fabs(got - want) <= relative * (1 + std::fabs(want)))
        continue;
      return llvm::formatv("output {0} of @{1}, element {2}: got {3}, "
                           "expected {4}",
                           at, kernel.getSymName(), i, got, want)
          .str();
    }
  }
  return "";
}

std::string check(ModuleOp module, const std::string &cpu, uint64_t seed,
                  double tolerance) {
#ifdef KERF_TEST_GPU
  return checkOnGpu(module, seed, tolerance);
#endif
  addFunctions(module);
  if (failed(module.verify()))
    return "does not verify";
  CodegenOptions options;
  options.cpu = cpu;
  if (const char *dump = getenv("KERF_TEST_DUMP"))
    options.dumpDir = dump;
  FailureOr<Program> program = compileProgram(module, options);
  if (failed(program))
    return "does not compile";
  Library library(program->sharedObject);
  for (exec::KernelOp kernel : module.getOps<exec::KernelOp>()) {
    Result result;
    fillInputs(kernel, seed, result);
    evaluate(kernel, result);
    run(kernel, library, result);
    std::string difference = compare(kernel, result, tolerance);
    if (difference.empty())
      continue;
    llvm::raw_string_ostream stream(difference);
    stream << "\n";
    kernel.print(stream);
    return difference;
  }
  return "";
}

std::string check(const std::string &kernel, const std::string &cpu,
                  uint64_t seed, double tolerance) {
  auto context = makeContext();
  auto module = parseSourceString<ModuleOp>(kernel, context.get());
  if (!module)
    return "does not parse";
  return check(*module, cpu, seed, tolerance);
}

} // namespace kerf::test
