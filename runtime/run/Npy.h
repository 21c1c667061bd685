//===- Npy.h - NumPy arrays in mapped memory --------------------*- C++ -*-===//
//
// The header of a .npy file, parsed and checked against the number of bytes
// behind it; the data stays where it is (a mapping, or a member of an archive).
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_RUN_NPY_H
#define KERF_RT_RUN_NPY_H

#include "../base/Types.h"

namespace kerf::rt {

struct NpyView {
  kerf_dtype_t dtype = KERF_F32;
  Shape shape;
  bool fortran = false;
  const char *data = nullptr; ///< unaligned
};

/// Throws KERF_INVALID_ARGUMENT without a file name in front.
NpyView parseNpy(const char *data, size_t size);

/// The elements in C order to `dst`.
void copyFortran(const NpyView &view, char *dst);

} // namespace kerf::rt

#endif // KERF_RT_RUN_NPY_H
