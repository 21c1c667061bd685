//===- Context.h - the rank behind the program's function table -*- C++ -*-===//
//
// kerf_program_context is what the entries of kerf_program_api get: one rank's
// device, communication and prepared library calls. Exceptions of the runtime
// must not pass through frames of generated code: they are stored here, the
// program gets a status, and run() throws them again.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_CONTEXT_H
#define KERF_RUNTIME_EXECUTION_CONTEXT_H

#include "../base/Trace.h"
#include "../device/Device.h"

#include <atomic>
#include <exception>
#include <mutex>

struct kerf_program_context {
  const kerf::rt::Manifest *manifest = nullptr;
  kerf::rt::Device *device = nullptr;
  kerf::rt::Comm *comm = nullptr;
  std::vector<std::unique_ptr<kerf::rt::LibraryCall>>
      library; ///< null: not here
  void *libraryScratch = nullptr;
  kerf::rt::Trace trace;
  int64_t rank = 0, microBatch = 0;

  /// Keeps the first failure; from any thread. Gives the status to return.
  int32_t keep(std::exception_ptr failure) noexcept;
  bool hasFailed() const { return failed.load(std::memory_order_acquire); }
  /// Calls a function of the program; throws a stored failure, or an error if
  /// the function gives up without a reason.
  void run(kerf_program_function_t function, const char *symbol,
           void *const *params, void *const *ios, void *scratch);

private:
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr first;
};

namespace kerf::rt {
/// The table handed to every program.
const kerf_program_api &programApi();
} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_CONTEXT_H
