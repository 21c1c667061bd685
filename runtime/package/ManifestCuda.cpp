//===- ManifestCuda.cpp - what manifest.json says for GPUs ----------------===//
//
// Code files and launches, as docs/Cuda.md has them.
//
//===----------------------------------------------------------------------===//
#include "ManifestCuda.h"

using namespace kerf::rt;

static int parseArch(const JsonReader &in) {
  std::string text = in.string();
  int arch = 0;
  if (text.rfind("sm_", 0) == 0)
    for (size_t i = 3;
         i < text.size() && i < 6 && text[i] >= '0' && text[i] <= '9'; ++i)
      arch = arch * 10 + (text[i] - '0');
  if (arch < 20 || arch > 999)
    in.fail("expected an architecture such as sm_90");
  return arch;
}

void kerf::rt::parseCudaTarget(const JsonReader &target, Manifest &m) {
  m.cuda.used = true;
  if (!target.has("cuda")) // no kernels at all
    return;
  JsonReader in = target["cuda"];
  if (in.has("ptx")) {
    m.cuda.ptx = in["ptx"].fileName();
    m.cuda.ptxArch = parseArch(in["ptx_arch"]);
    in.stringOr("ptx_version", ""); // the driver reads it in the file
  }
  m.cuda.cubins = in.list<CudaTarget::Cubin>("cubins", [](const JsonReader &c) {
    return CudaTarget::Cubin{parseArch(c["arch"]), c["file"].fileName()};
  });
}

CudaKernel kerf::rt::parseCudaKernel(const JsonReader &in) {
  CudaKernel k;
  k.entry = in["entry"].string();
  auto dims = [&](const char *key, int64_t *out, const int64_t (&limits)[3]) {
    if (in[key].size() != 3)
      in[key].fail("expected three numbers");
    for (size_t d = 0; d < 3; ++d)
      out[d] = in[key][d].integer(out == k.grid ? 0 : 1, limits[d]);
  };
  dims("grid", k.grid, {2147483647, 65535, 65535});
  dims("block", k.block, {1024, 1024, 64});
  if (k.block[0] * k.block[1] * k.block[2] > 1024)
    in["block"].fail("has more than 1024 threads");
  k.sharedBytes = in.integerOr("shared_bytes", 0, 1 << 20, 0);
  k.buffers = in["buffers"].integer(0, 4096);
  k.scalars = in.integerOr("scalars", 0, 4096, 0);
  k.fails = in.has("fails") && in["fails"].boolean();
  if (in.has("access")) {
    if (static_cast<int64_t>(in["access"].size()) != k.buffers)
      in["access"].fail(
          cat("has ", in["access"].size(), " entries, expected ", k.buffers));
    for (int64_t i = 0; i < k.buffers; ++i) {
      JsonReader entry = in["access"][static_cast<size_t>(i)];
      std::string how = entry.string();
      CudaKernel::Access access;
      access.reads = how == "read" || how == "read_write";
      access.writes = how == "write" || how == "read_write";
      if (!access.reads && !access.writes)
        entry.fail("expected read, write or read_write");
      if (in.has("bytes") && static_cast<int64_t>(in["bytes"].size()) > i)
        access.bytes = in["bytes"][static_cast<size_t>(i)].size64();
      k.access.push_back(access);
    }
  }
  if (in.has("arguments")) {
    k.arguments = in["arguments"].shape();
    if (static_cast<int64_t>(k.arguments.size()) != k.buffers)
      in["arguments"].fail(
          cat("has ", k.arguments.size(), " entries, expected ", k.buffers));
    for (int64_t index : k.arguments)
      if (index > 63)
        in["arguments"].fail("expected numbers of the call's buffers");
  }
  if (in.has("batch")) {
    JsonReader batch = in["batch"];
    if (k.fails || k.scalars)
      batch.fail("a kernel that fails or takes numbers has no batch");
    k.batch = {batch["entry"].string(),
               batch["elements"].integer(1, JsonReader::maxInteger),
               batch["chunk"].integer(1, 1 << 30),
               batch["threads"].integer(1, 1024)};
  }
  return k;
}
