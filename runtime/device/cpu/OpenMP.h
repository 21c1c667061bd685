//===- OpenMP.h - the thread team that oneDNN uses, too ---------*- C++ -*-===//
//
// oneDNN runs on GNU OpenMP. Generated kernels must run on the same team, or
// two thread pools fight for the cores; so libgomp is opened at run time and
// its entry for parallel regions is called directly. Without it everything runs
// on one thread.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_DEVICE_CPU_OPENMP_H
#define KERF_RT_DEVICE_CPU_OPENMP_H

namespace kerf::rt {

struct OpenMP {
  void (*parallel)(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags) = nullptr;
  void (*setNumThreads)(int) = nullptr;
  int (*threadNumber)() = nullptr;
  int (*numThreads)() = nullptr;

  bool available() const { return parallel != nullptr; }
  /// Opened on first use; the same for the whole process.
  static const OpenMP &get();
};

} // namespace kerf::rt

#endif // KERF_RT_DEVICE_CPU_OPENMP_H
