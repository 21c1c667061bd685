//===- OpenMP.cpp - the thread team that oneDNN uses, too -----------------===//
//
// GOMP_parallel is what GCC emits for `#pragma omp parallel`, and ABI of
// libgomp.
//
//===----------------------------------------------------------------------===//
#include "OpenMP.h"

#include "Library.h"

using namespace kerf::rt;

static OpenMP openOpenMP() {
  SharedLibrary library("libgomp.so.1");
  OpenMP omp;
  omp.setNumThreads =
      reinterpret_cast<void (*)(int)>(library.symbol("omp_set_num_threads"));
  omp.threadNumber =
      reinterpret_cast<int (*)()>(library.symbol("omp_get_thread_num"));
  omp.numThreads =
      reinterpret_cast<int (*)()>(library.symbol("omp_get_num_threads"));
  if (omp.setNumThreads && omp.threadNumber && omp.numThreads)
    omp.parallel = reinterpret_cast<decltype(omp.parallel)>(
        library.symbol("GOMP_parallel"));
  return omp;
}

const OpenMP &OpenMP::get() {
  static const OpenMP omp = openOpenMP();
  return omp;
}
