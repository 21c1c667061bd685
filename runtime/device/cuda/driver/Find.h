//===- Find.h - finds NVIDIA's libraries ------------------------*- C++ -*-===//
//
// The driver comes with the machine; cuBLASLt, cuDNN and NCCL may come from a
// toolkit, from a distribution or from Python wheels (those of PyTorch). The
// search order is that of docs/Cuda.md: an environment variable (and then
// nothing else), the dynamic linker, the toolkit's folders, wheels beside the
// Python interpreters that the environment names. Python itself is never run.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_DRIVER_FIND_H
#define KERF_RUNTIME_DEVICE_CUDA_DRIVER_FIND_H

#include <string>
#include <vector>

namespace kerf::rt {

struct LibrarySearch {
  const char *what;                ///< "NCCL", for errors
  const char *variable;            ///< overrides everything: a file
  std::vector<std::string> names;  ///< sonames, best first
  std::vector<std::string> wheels; ///< folders below site-packages/nvidia
  /// Tried when none of `names` is anywhere.
  std::vector<std::string> others = {};
};

/// The names of a library of CUDA 12 and 13 for a driver of this version
/// (12080: CUDA 12.8): libraries of its own CUDA before older ones, and newer
/// ones, which it cannot run, last of all.
void nameForDriver(LibrarySearch &search, const std::string &stem,
                   int driverVersion);

/// A library that stays open: its threads and code outlive their users.
struct OpenedLibrary {
  void *handle = nullptr;               ///< null: not there
  std::string path;                     ///< the file that was opened
  std::string error;                    ///< what was tried, one line
  const char *what = "";                ///< of the search
  void *symbol(const char *name) const; ///< null: it has none
  /// Throws KERF_UNSUPPORTED_HOST if the library has no such function; `needs`
  /// is added to the message.
  void *require(const char *name, const char *needs = "") const;
  /// Sets a member of a table of functions: null if the library has none.
  template <typename Function>
  void find(Function *&member, const char *name) const {
    member = reinterpret_cast<Function *>(symbol(name));
  }
  /// Sets a member of a table of functions, or throws as above.
  template <typename Function>
  void require(Function *&member, const char *name) const {
    member = reinterpret_cast<Function *>(require(name));
  }
};

/// All files and names that would be tried, in order.
std::vector<std::string> candidates(const LibrarySearch &search);
OpenedLibrary openLibrary(const LibrarySearch &search);
/// The same; throws KERF_UNSUPPORTED_HOST where it is not there. `use`: what
/// needs it, "several GPUs need NCCL".
OpenedLibrary requireLibrary(const LibrarySearch &search, const char *use);

/// Throws KERF_PROGRAM_FAILURE: a library's function did not do `what`. `text`
/// is what the library says of the status; null: it does not say.
[[noreturn]] void failCall(const char *library, const char *what, int status,
                           const char *text);

/// The site-packages folders that are looked at, in order.
std::vector<std::string> sitePackages();

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_DRIVER_FIND_H
