//===- Module.cpp - the GPU code of a package -----------------------------===//
//
// cuModuleLoadDataEx takes cubins and PTX alike. PTX must end with a zero byte,
// which the file does not have, so it is copied; the errors of the driver's
// compiler come back in a buffer.
//
//===----------------------------------------------------------------------===//
#include "Module.h"

#include "../../../base/MappedFile.h"

#include <cstring>

using namespace kerf::rt;

int64_t kerf::rt::chooseCubin(const CudaTarget &target, const GpuInfo &gpu) {
  int64_t best = -1;
  for (size_t i = 0; i < target.cubins.size(); ++i) {
    int arch = target.cubins[i].arch;
    if (arch / 10 == gpu.major && arch % 10 <= gpu.minor &&
        (best < 0 || arch > target.cubins[best].arch))
      best = static_cast<int64_t>(i);
  }
  return best;
}

bool CudaModule::load(const std::string &path, std::string &why) {
  MappedFile file(path);
  std::string image(file.data(), file.size());
  char log[4096] = "";
  int options[] = {cu::JitErrorLogBuffer, cu::JitErrorLogBufferSizeBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  cu::Result result =
      driver.moduleLoadDataEx(&module, image.c_str(), 2, options, values);
  if (result == cu::Success)
    return true;
  module = nullptr;
  why = driver.describe(result);
  if (log[0]) {
    std::string text(log, strnlen(log, sizeof(log)));
    why += ": " + text.substr(0, text.find('\n'));
  }
  return false;
}

CudaModule::CudaModule(const Driver &cuda, const Package &package,
                       const GpuInfo &gpu)
    : driver(cuda) {
  const Manifest &m = package.manifest;
  functions.resize(m.kernels.size());
  batches.resize(m.kernels.size());
  calls.resize(m.library.size());
  bool any = false;
  for (const KernelEntry &kernel : m.kernels)
    any = any || !kernel.cuda.entry.empty();
  for (const LibraryDesc &call : m.library)
    any = any || !call.cuda.entry.empty();
  if (!any)
    return;
  int64_t cubin = chooseCubin(m.cuda, gpu);
  std::string why, refused;
  bool loaded = false;
  if (cubin >= 0) {
    const CudaTarget::Cubin &code = m.cuda.cubins[cubin];
    loaded = load(package.path + "/" + code.file, why);
    if (!loaded)
      refused = cat("the driver (CUDA ", driver.version / 1000, ".",
                    driver.version % 1000 / 10, ") refuses ", code.file, " (",
                    why, ")");
  } else {
    std::string archs;
    for (const CudaTarget::Cubin &c : m.cuda.cubins)
      archs += cat(archs.empty() ? "sm_" : ", sm_", c.arch);
    refused =
        cat("no cubin for ", gpu.text(), " (",
            archs.empty() ? "the package has none" : "there is " + archs, ")");
  }
  int ownArch = gpu.major * 10 + gpu.minor;
  if (!loaded && !m.cuda.ptx.empty() && m.cuda.ptxArch <= ownArch) {
    loaded = load(package.path + "/" + m.cuda.ptx, why);
    if (loaded)
      messages.push_back(refused + ": " + m.cuda.ptx +
                         " is compiled by the driver instead");
    else
      refused += cat(", and ", m.cuda.ptx, " (", why, ")");
  } else if (!loaded) {
    refused += m.cuda.ptx.empty() ? ", and the package has no PTX"
                                  : cat(", and the PTX is for sm_",
                                        m.cuda.ptxArch, " and newer");
  }
  if (!loaded)
    throw Error(KERF_UNSUPPORTED_HOST, "no GPU code can be loaded: " + refused);
  for (size_t i = 0; i < m.kernels.size(); ++i) {
    functions[i] = find(m.kernels[i].cuda, m.kernels[i].node);
    if (!m.kernels[i].cuda.batch.entry.empty())
      batches[i] = findEntry(m.kernels[i].cuda.batch.entry, m.kernels[i].node);
  }
  for (size_t i = 0; i < m.library.size(); ++i)
    calls[i] = find(m.library[i].cuda, m.library[i].node);
}

cu::Function CudaModule::findEntry(const std::string &entry,
                                   const std::string &node) {
  cu::Function function = nullptr;
  if (driver.moduleGetFunction(&function, module, entry.c_str()) != cu::Success)
    throw Error(KERF_BAD_PACKAGE,
                cat("no kernel \"", entry, "\" in the GPU code"), node);
  return function;
}

cu::Function CudaModule::find(const CudaKernel &kernel,
                              const std::string &node) {
  if (kernel.entry.empty())
    return nullptr;
  cu::Function function = findEntry(kernel.entry, node);
  // Beyond 48 KiB a kernel has to be told.
  if (kernel.sharedBytes > 48 << 10)
    driver.check(
        driver.funcSetAttribute(function, cu::FunctionMaxDynamicSharedBytes,
                                static_cast<int>(kernel.sharedBytes)),
        cat(kernel.sharedBytes, " bytes of shared memory for ", kernel.entry));
  return function;
}

CudaModule::~CudaModule() {
  if (module)
    driver.moduleUnload(module);
}
