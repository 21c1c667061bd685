//===- Context.cpp - the rank behind the program's function table ---------===//
//
// One function per entry of kerf_program_api. Indices come from native code and
// are checked nevertheless: a wrong one is an error, not a crash.
//
//===----------------------------------------------------------------------===//
#include "Context.h"

using namespace kerf::rt;

int32_t kerf_program_context::keep(std::exception_ptr failure) noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (!first)
    first = failure;
  failed.store(true, std::memory_order_release);
  return 1;
}

void kerf_program_context::run(kerf_program_function_t function,
                               const char *symbol, void *const *params,
                               void *const *ios, void *scratch) {
  device->memoryChanges();
  int32_t status = function(&programApi(), this, params, ios, scratch);
  if (hasFailed())
    std::rethrow_exception(first);
  if (status != 0)
    throw Error(KERF_PROGRAM_FAILURE,
                cat("function \"", symbol, "\" failed with status ", status));
}

namespace {
using Context = kerf_program_context;

// Runs `body` unless an earlier entry failed; stores its exception.
template <typename Body> int32_t entry(Context *ctx, Body &&body) noexcept {
  if (ctx->hasFailed())
    return 1;
  try {
    body();
    return 0;
  } catch (...) {
    return ctx->keep(std::current_exception());
  }
}

template <typename List>
void checkIndex(int32_t index, const List &list, const char *what) {
  if (index < 0 || static_cast<size_t>(index) >= list.size())
    throw Error(KERF_BAD_PACKAGE,
                cat("program names ", what, " ", index, " of ", list.size()));
}

int32_t launch(Context *ctx, int32_t kernelIndex, kerf_kernel_t kernel,
               void *const *buffers, int32_t numBuffers, const int64_t *scalars,
               int64_t count, int64_t grain) {
  return entry(ctx,
               [&] {
                 TraceScope scope(ctx->trace, TraceEvent::Launch, kernelIndex,
                                  ctx->microBatch);
                 ctx->comm->progress();
                 ctx->device->launchKernel(kernelIndex, kernel, buffers,
                                           numBuffers, scalars, count, grain);
                 // A kernel may have called fail; entry() reports success only
                 // without it.
               }) ||
         ctx->hasFailed();
}

int32_t library(Context *ctx, int32_t index, void *const *buffers) {
  return entry(ctx, [&] {
    checkIndex(index, ctx->library, "library call");
    if (!ctx->library[index])
      throw Error(KERF_BAD_PACKAGE,
                  cat("library call ", index, " uses a parameter that rank ",
                      ctx->rank, " does not hold"),
                  ctx->manifest->library[index].node);
    TraceScope scope(ctx->trace, TraceEvent::Library, index, ctx->microBatch);
    ctx->comm->progress();
    ctx->library[index]->run(buffers, ctx->libraryScratch);
  });
}

int32_t collectiveStart(Context *ctx, int32_t index, const void *src,
                        void *dst) {
  return entry(ctx, [&] {
    checkIndex(index, ctx->manifest->collectives, "collective");
    ctx->device->memoryChanges();
    ctx->comm->start(index, src, dst);
  });
}

int32_t collectiveWait(Context *ctx, int32_t index) {
  return entry(ctx, [&] {
    checkIndex(index, ctx->manifest->collectives, "collective");
    TraceScope scope(ctx->trace, TraceEvent::Collective, index,
                     ctx->microBatch);
    ctx->comm->wait(index);
    ctx->device->memoryChanges();
  });
}

int32_t collective(Context *ctx, int32_t index, const void *src, void *dst) {
  return entry(ctx, [&] {
    checkIndex(index, ctx->manifest->collectives, "collective");
    TraceScope scope(ctx->trace, TraceEvent::Collective, index,
                     ctx->microBatch);
    ctx->comm->start(index, src, dst);
    ctx->comm->wait(index);
    ctx->device->memoryChanges();
  });
}

int64_t shardIndex(Context *ctx, int32_t index) {
  if (index < 0 ||
      static_cast<size_t>(index) >= ctx->manifest->shardIndices.size())
    return -1;
  // Axes in time make it differ from one micro-batch to the next.
  return ctx->manifest->mesh.position(
      ctx->rank, ctx->manifest->shardIndices[index], ctx->microBatch);
}

int32_t storeShardIndex(Context *ctx, int32_t index, void *dst) {
  return entry(ctx, [&] {
    checkIndex(index, ctx->manifest->shardIndices, "shard index");
    ctx->device->memoryChanges();
    ctx->device->storeNumber(shardIndex(ctx, index), dst);
  });
}

int32_t copy(Context *ctx, const void *src, void *dst, int64_t bytes) {
  return entry(ctx, [&] {
    TraceScope scope(ctx->trace, TraceEvent::Copy, -1, ctx->microBatch);
    ctx->device->copy(src, dst, bytes);
  });
}

int32_t fail(Context *ctx, int32_t code, const char *node, int64_t detail) {
  return ctx->keep(std::make_exception_ptr(
      programFailure(code, detail, ctx->rank, node ? node : "")));
}

int32_t failIndex(Context *ctx, const char *node, int64_t index, int64_t size) {
  return ctx->keep(std::make_exception_ptr(programFailure(
      KERF_FAIL_INDEX_OUT_OF_RANGE, index, ctx->rank, node ? node : "", size)));
}
} // namespace

Error kerf::rt::programFailure(int32_t code, int64_t detail, int64_t rank,
                               const std::string &node, int64_t size) {
  std::string reason;
  switch (code) {
  case KERF_FAIL_INDEX_OUT_OF_RANGE:
    reason = cat("index ", detail, " is out of range");
    if (size >= 0)
      reason += cat(" of a dimension of size ", size);
    break;
  case KERF_FAIL_DIVISION_BY_ZERO:
    reason = cat("integer division by zero at element ", detail);
    break;
  default:
    reason = cat("check failed with code ", code, ", detail ", detail);
  }
  return Error(KERF_PROGRAM_FAILURE, cat(reason, " on rank ", rank), node);
}

const kerf_program_api &kerf::rt::programApi() {
  static const kerf_program_api api = {KERF_PROGRAM_ABI_VERSION,
                                       sizeof(kerf_program_api),
                                       launch,
                                       library,
                                       collective,
                                       collectiveStart,
                                       collectiveWait,
                                       shardIndex,
                                       copy,
                                       fail,
                                       storeShardIndex,
                                       failIndex};
  return api;
}
