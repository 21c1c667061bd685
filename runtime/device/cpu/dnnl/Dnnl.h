//===- Dnnl.h - oneDNN's C API, opened at run time --------------*- C++ -*-===//
//
// The functions that we call, as pointers with the types of oneDNN's header, so
// that the runtime starts on a machine without it. Handles are RAII.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CPU_DNNL_DNNL_H
#define KERF_RUNTIME_DEVICE_CPU_DNNL_DNNL_H

#include "../../../base/Error.h"

#include <oneapi/dnnl/dnnl.h>

#include <memory>
#include <string>

#define KERF_DNNL_FUNCTIONS(X)                                                 \
  X(dnnl_engine_create)                                                        \
  X(dnnl_engine_destroy)                                                       \
  X(dnnl_stream_create)                                                        \
  X(dnnl_stream_destroy)                                                       \
  X(dnnl_memory_desc_init_by_strides)                                          \
  X(dnnl_memory_desc_init_by_tag)                                              \
  X(dnnl_memory_desc_equal)                                                    \
  X(dnnl_memory_desc_get_size)                                                 \
  X(dnnl_memory_desc_init_submemory)                                           \
  X(dnnl_memory_create)                                                        \
  X(dnnl_memory_destroy)                                                       \
  X(dnnl_memory_set_data_handle)                                               \
  X(dnnl_primitive_attr_create)                                                \
  X(dnnl_primitive_attr_destroy)                                               \
  X(dnnl_primitive_attr_set_scratchpad_mode)                                   \
  X(dnnl_primitive_attr_set_post_ops)                                          \
  X(dnnl_post_ops_create)                                                      \
  X(dnnl_post_ops_destroy)                                                     \
  X(dnnl_post_ops_append_eltwise)                                              \
  X(dnnl_post_ops_append_binary)                                               \
  X(dnnl_post_ops_append_sum)                                                  \
  X(dnnl_matmul_desc_init)                                                     \
  X(dnnl_dilated_convolution_forward_desc_init)                                \
  X(dnnl_dilated_convolution_backward_data_desc_init)                          \
  X(dnnl_dilated_convolution_backward_weights_desc_init)                       \
  X(dnnl_eltwise_forward_desc_init)                                            \
  X(dnnl_binary_desc_init)                                                     \
  X(dnnl_pooling_v2_forward_desc_init)                                         \
  X(dnnl_reorder_primitive_desc_create)                                        \
  X(dnnl_primitive_desc_create)                                                \
  X(dnnl_primitive_desc_destroy)                                               \
  X(dnnl_primitive_desc_query)                                                 \
  X(dnnl_primitive_desc_query_md)                                              \
  X(dnnl_primitive_create)                                                     \
  X(dnnl_primitive_destroy)                                                    \
  X(dnnl_primitive_execute)                                                    \
  X(dnnl_sgemm)                                                                \
  X(dnnl_version)                                                              \
  X(dnnl_get_effective_cpu_isa)

namespace kerf::rt {

struct Dnnl {
#define KERF_DNNL_MEMBER(name) decltype(&::name) name = nullptr;
  KERF_DNNL_FUNCTIONS(KERF_DNNL_MEMBER)
#undef KERF_DNNL_MEMBER
  std::string error; ///< why it could not be opened; empty if it was

  /// Opened on first use. Throws KERF_UNSUPPORTED_HOST when it is not there.
  static const Dnnl &get();
  /// Throws if `status` is a failure. `unimplemented` is told apart.
  static void check(dnnl_status_t status, const char *what);
  /// For the implementations called "gemm" the library generates its code, of
  /// all products, at the first one that runs, in some 40 ms: here instead, so
  /// that no step does. Once.
  void compileProducts() const;
  /// Whether it has bfloat16 on this CPU: it needs AVX-512 for that.
  bool hasBrainFloat() const {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) ==
           dnnl_cpu_isa_avx512_core;
  }
};

/// Owns a handle: Handle<dnnl_memory_t>(raw, Dnnl::get().dnnl_memory_destroy).
template <typename T>
using DnnlHandle =
    std::unique_ptr<std::remove_pointer_t<T>, dnnl_status_t (*)(T)>;

DnnlHandle<dnnl_memory_t> makeMemory(const dnnl_memory_desc_t &desc,
                                     dnnl_engine_t engine, void *data);

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CPU_DNNL_DNNL_H
