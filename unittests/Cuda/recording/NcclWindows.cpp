//===- NcclWindows.cpp - NCCL's own memory, and windows in it -------------===//
//
// What NCCL asks of windows: memory of ncclMemAlloc, the same size and offset
// on all members, deregistered before it is freed and before the communicator
// is destroyed.
//
//===----------------------------------------------------------------------===//
#include "NcclState.h"

#include <set>

using namespace recording;
using namespace kerf::rt;

extern "C" int cuMemAlloc_v2(cu::DevicePtr *pointer, size_t bytes);
extern "C" int cuMemFree_v2(cu::DevicePtr pointer);

namespace {
using Lock = std::unique_lock<std::mutex>;
Engine &engine() { return Engine::get(); }

struct Window {
  NcclRank *comm;
  uintptr_t block;
};
struct State {
  std::set<uintptr_t> blocks; ///< of ncclMemAlloc
  std::set<Window *> windows;
};
State &state() {
  static State *made = new State;
  return *made;
}
} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclMemAlloc(void **pointer, size_t bytes) {
  cu::DevicePtr place = 0;
  if (cuMemAlloc_v2(&place, bytes) != cu::Success)
    return nccl::UnhandledCudaError;
  *pointer = reinterpret_cast<void *>(place);
  Lock lock(engine().mutex);
  state().blocks.insert(reinterpret_cast<uintptr_t>(*pointer));
  return nccl::Success;
}

EXPORT int ncclMemFree(void *pointer) {
  {
    Lock lock(engine().mutex);
    auto block = reinterpret_cast<uintptr_t>(pointer);
    for (Window *window : state().windows)
      if (window->block == block && !window->comm->group->aborted)
        engine().problem("memory is freed before its window");
    if (!state().blocks.erase(block))
      engine().problem("ncclMemFree of memory that is not NCCL's");
  }
  return cuMemFree_v2(reinterpret_cast<cu::DevicePtr>(pointer)) == cu::Success
             ? nccl::Success
             : nccl::InvalidArgument;
}

EXPORT int ncclCommWindowRegister(nccl::Comm comm, void *memory, size_t bytes,
                                  nccl::Window *result, int flags) {
  Lock lock(engine().mutex);
  NcclRank &rank = *of(comm);
  if (engine().settings.refuseWindow == rank.rank)
    return nccl::InvalidUsage;
  auto at = reinterpret_cast<uintptr_t>(memory);
  auto block = state().blocks.upper_bound(at);
  if (flags != nccl::WindowSymmetric || block == state().blocks.begin())
    return nccl::InvalidArgument;
  --block;
  if (engine().blocks[*block] < at + bytes)
    return nccl::InvalidArgument;
  auto &all = rank.group->windows[rank.nextWindow++];
  all.push_back({bytes, at - *block});
  if (all.front() != all.back())
    engine().problem("members register windows of different size or offset");
  auto *window = new Window{&rank, *block};
  state().windows.insert(window);
  ++rank.windows;
  engine().log(cat("window of ", bytes, " for member ", rank.rank, " of ",
                   rank.group->size));
  *result = window;
  return nccl::Success;
}

EXPORT int ncclCommWindowDeregister(nccl::Comm comm, nccl::Window given) {
  Lock lock(engine().mutex);
  auto *window = static_cast<Window *>(given);
  if (!state().windows.erase(window) || window->comm != of(comm))
    return nccl::InvalidArgument;
  --of(comm)->windows;
  delete window;
  return nccl::Success;
}
