//===- CudaLaunch.cpp - kernels and library calls of a rank on a GPU ------===//
#include "CudaDeviceImpl.h"

#include "KernelCall.h"
#include "cudnn/ConvPlan.h"
#include "matmul/MatmulPlan.h"

#include <algorithm>
#include <cstdlib>

using namespace kerf::rt;

void CudaDevice::launchKernel(int32_t index, kerf_kernel_t kernel,
                              void *const *buffers, int32_t numBuffers,
                              const int64_t *scalars, int64_t count,
                              int64_t grain) {
  const auto &kernels = package.manifest.kernels;
  if (index < 0 || static_cast<size_t>(index) >= kernels.size() ||
      !module->function(index))
    throw Error(KERF_BAD_PACKAGE,
                cat("kernel ", index, " has no GPU form in the manifest"));
  const CudaKernel &k = kernels[index].cuda;
  if (numBuffers < k.buffers)
    throw Error(KERF_BAD_PACKAGE,
                cat("kernel ", k.entry, " takes ", k.buffers,
                    " buffers, it is launched with ", numBuffers),
                kernels[index].node);
  if (k.grid[0] == 0 || k.grid[1] == 0 || k.grid[2] == 0)
    return; // nothing to do
  if (static_cast<size_t>(index) < replaced.size() && replaced[index])
    return; // a library call does it
  if (batches && k.scalars == 0 && !k.fails &&
      batches->add(
          {index, kernel, {buffers, buffers + numBuffers}, count, grain}))
    return;
  flushFor(compute);
  enqueueKernel(index, kernel, buffers, numBuffers, scalars, count);
}

void CudaDevice::launchAlone(const KernelLaunch &launch) {
  enqueueKernel(launch.kernel, launch.host, launch.buffers.data(),
                static_cast<int32_t>(launch.buffers.size()), nullptr,
                launch.count);
}

void CudaDevice::enqueueKernel(int32_t index, kerf_kernel_t kernel,
                               void *const *buffers, int32_t numBuffers,
                               const int64_t *scalars, int64_t count) {
  const auto &kernels = package.manifest.kernels;
  const CudaKernel &k = kernels[index].cuda;
  void *recordPointer = record->data;
  std::vector<void *> arguments;
  arguments.reserve(static_cast<size_t>(k.buffers + k.scalars + 1));
  for (int64_t i = 0; i < k.buffers; ++i)
    arguments.push_back(const_cast<void **>(&buffers[i]));
  for (int64_t i = 0; i < k.scalars; ++i)
    arguments.push_back(const_cast<int64_t *>(&scalars[i]));
  if (k.fails)
    arguments.push_back(&recordPointer);
  if (cuda.recording.bind)
    bindHostKernel(cuda, kernels[index], index, kernel, buffers, numBuffers,
                   scalars, count, static_cast<FailureRecord *>(recordPointer));
  if (tracing)
    launched[k.entry].push_back(index);
  launchFunction(module->function(index), k, arguments.data(),
                 kernels[index].node);
}

void CudaDevice::launchBatch(const std::vector<KernelLaunch> &launches,
                             void *table, int64_t words, int64_t blocks) {
  const KernelEntry &first = package.manifest.kernels[launches[0].kernel];
  CudaKernel k;
  k.entry = first.cuda.batch.entry;
  k.grid[0] = blocks;
  k.block[0] = first.cuda.batch.threads;
  auto members = static_cast<int64_t>(launches.size());
  void *arguments[] = {&table, &members};
  if (cuda.recording.bind)
    bindHostBatch(cuda, package.manifest, launches, table, words);
  if (tracing)
    launched[k.entry].push_back(launches[0].kernel);
  launchFunction(module->batch(launches[0].kernel), k, arguments, first.node);
}

void CudaDevice::launchFunction(cu::Function function, const CudaKernel &k,
                                void **arguments, const std::string &node) {
  auto u = [](int64_t v) { return static_cast<unsigned>(v); };
  cu::Result result =
      cuda.launchKernel(function, u(k.grid[0]), u(k.grid[1]), u(k.grid[2]),
                        u(k.block[0]), u(k.block[1]), u(k.block[2]),
                        u(k.sharedBytes), compute, arguments, nullptr);
  if (result != cu::Success)
    throw Error(KERF_PROGRAM_FAILURE,
                cat("launch of ", k.entry, " failed: ", cuda.describe(result)),
                node);
}

// The steps behind a product that cuBLASLt does not fuse.
class CudaDevice::EpilogueKernel : public LibraryCall {
public:
  EpilogueKernel(CudaDevice &device, const LibraryDesc &desc,
                 cu::Function function)
      : device(device), desc(desc), function(function) {}
  int64_t scratchBytes() const override { return 0; }
  void run(void *const *buffers, void *) override {
    const CudaKernel &kernel = desc.cuda;
    if (kernel.grid[0] == 0 || kernel.grid[1] == 0 || kernel.grid[2] == 0)
      return;
    std::vector<void *> arguments;
    for (int64_t i = 0; i < kernel.buffers; ++i)
      arguments.push_back(const_cast<void **>(
          &buffers[kernel.arguments.empty() ? i : kernel.arguments[i]]));
    device.flushFor(device.compute);
    if (device.cuda.recording.bind)
      bindHostGradient(device.cuda, desc, buffers);
    device.launchFunction(function, kernel, arguments.data(), desc.node);
  }

private:
  CudaDevice &device;
  LibraryDesc desc;
  cu::Function function;
};

// A call that uses the stream must come after the queued launches.
class CudaDevice::FlushingCall : public LibraryCall {
public:
  FlushingCall(CudaDevice &device, std::unique_ptr<LibraryCall> call)
      : device(device), call(std::move(call)) {}
  int64_t scratchBytes() const override { return call->scratchBytes(); }
  void run(void *const *buffers, void *scratch) override {
    device.flushFor(device.compute);
    call->run(buffers, scratch);
  }

private:
  CudaDevice &device;
  std::unique_ptr<LibraryCall> call;
};

std::unique_ptr<LibraryCall>
CudaDevice::prepare(const LibraryDesc &desc, int64_t index,
                    const std::function<ParameterView(int64_t)> &parameter) {
  bool product = desc.kind == LibraryDesc::Matmul;
  bool hasKernel = !desc.cuda.entry.empty();
  auto kernelCall = [&] {
    cu::Function function = module->call(index);
    return std::make_unique<KernelCall>(
        desc, [this, function, node = desc.node](const CudaKernel &kernel,
                                                 void **arguments) {
          flushFor(compute);
          launchFunction(function, kernel, arguments, node);
        });
  };
  if (cpu && !(product && std::getenv("KERF_CUBLASLT"))) {
    // A recording driver answers more calls than the GPU's libraries would.
    try {
      if (product)
        planMatmul(desc);
      else if (desc.kind == LibraryDesc::Conv ||
               desc.kind == LibraryDesc::ConvInputGradient ||
               desc.kind == LibraryDesc::ConvWeightGradient)
        planConv(desc);
    } catch (Error &error) {
      error.message = cat("library[", index, "]: ", error.message);
      error.node = desc.node;
      throw;
    }
    // The CPU's library may pack parameters now: they must have been copied.
    cu::Event arrived = newEvent();
    cuda.check(cuda.eventRecord(arrived, compute), "cuEventRecord");
    await(arrived);
    return std::make_unique<FlushingCall>(
        *this, makeAnsweredCall(cuda, compute, *cpu, desc, index, parameter));
  }
  if (hasKernel && !product && !desc.isAttention())
    return kernelCall();
  try {
    if (!calls)
      calls = makeGpuCalls(*this, package.manifest.precision);
    std::unique_ptr<LibraryCall> epilogue;
    if (product && hasKernel)
      epilogue =
          std::make_unique<EpilogueKernel>(*this, desc, module->call(index));
    return calls->prepare(desc, parameter, std::move(epilogue));
  } catch (Error &error) {
    if (hasKernel && desc.isAttention()) {
      std::string note =
          cat("no fused attention on this GPU (", error.message,
              "): the package's own kernels are used, which are slow");
      if (std::find(messages.begin(), messages.end(), note) == messages.end())
        messages.push_back(note);
      return kernelCall();
    }
    error.message = cat("library[", index, "]: ", error.message);
    error.node = desc.node;
    throw;
  }
}
