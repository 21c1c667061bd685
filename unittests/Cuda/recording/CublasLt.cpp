//===- CublasLt.cpp - cuBLASLt by plain loops, over the engine ------------===//
//
// The part of cuBLASLt that the runtime calls, as its header describes it:
// column-major matrices, epilogues, the rules for auxiliary matrices. Only used
// where KERF_CUBLASLT names this library; otherwise products are answered by
// the CPU's. A descriptor that breaks a rule gets no algorithm, as does an
// epilogue that a test refuses.
//
//===----------------------------------------------------------------------===//
#include "Engine.h"

#include "base/Error.h"
#include "device/cuda/matmul/CublasLt.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace recording;
using namespace kerf::rt;

namespace {
using Lock = std::unique_lock<std::mutex>;
Engine &engine() { return Engine::get(); }

enum : int { NotInitialized = 1, InvalidValue = 7, NotSupported = 15 };
constexpr uint64_t marker = 0x6b657266;

struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t ld, batchStride = 0;
  int32_t batchCount = 1;
};
struct Desc {
  int compute, scale;
  int32_t transA = lt::OpN, transB = lt::OpN, epilogue = lt::EpilogueDefault;
  const void *bias = nullptr;
  void *aux = nullptr;
  int64_t auxLd = 0, auxStride = 0;
  int32_t biasType = -1;
};

size_t bytesOf(int type) {
  return type == lt::R64F ? 8 : type == lt::R32F ? 4 : 2;
}

double get(const void *data, int64_t at, int type) {
  switch (type) {
  case lt::R64F:
    return static_cast<const double *>(data)[at];
  case lt::R32F:
    return static_cast<const float *>(data)[at];
  default: {
    uint32_t word =
        static_cast<uint32_t>(static_cast<const uint16_t *>(data)[at]) << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
  }
}

void put(void *data, int64_t at, int type, double value) {
  switch (type) {
  case lt::R64F:
    static_cast<double *>(data)[at] = value;
    return;
  case lt::R32F:
    static_cast<float *>(data)[at] = static_cast<float>(value);
    return;
  default: {
    auto narrow = static_cast<float>(value);
    uint32_t word;
    std::memcpy(&word, &narrow, sizeof(word));
    static_cast<uint16_t *>(data)[at] =
        static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  }
}

int64_t extent(const Layout &x) {
  return static_cast<int64_t>(x.cols - 1) * x.ld +
         static_cast<int64_t>(x.rows) + (x.batchCount - 1) * x.batchStride;
}

double geluOf(double x) {
  return 0.5 * x *
         (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double geluSlope(double x) {
  double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 *
                             (1 + 3 * 0.044715 * x * x);
}

const Desc &descOf(lt::MatmulDesc d) { return *static_cast<Desc *>(d); }
const Layout &layoutOf(lt::MatrixLayout x) { return *static_cast<Layout *>(x); }

/// ReLU with bits, or its gradient by them.
bool usesBits(const Desc &desc) {
  return desc.epilogue == lt::EpilogueDRelu ||
         (desc.epilogue & lt::EpilogueAux && desc.epilogue & lt::EpilogueRelu);
}
bool givesSums(const Desc &desc) {
  return desc.epilogue == lt::EpilogueBiasGradientA ||
         desc.epilogue == lt::EpilogueBiasGradientB;
}
bool usesBias(const Desc &desc) {
  return givesSums(desc) || desc.epilogue & lt::EpilogueBias;
}

/// Whether the library would have an algorithm.
bool allowed(const Desc &desc, const Layout &a, const Layout &b,
             const Layout &c, const Layout &d) {
  bool ta = desc.transA == lt::OpT, tb = desc.transB == lt::OpT;
  uint64_t m = ta ? a.cols : a.rows, k = ta ? a.rows : a.cols,
           n = tb ? b.rows : b.cols;
  auto fits = [](const Layout &x) {
    return x.ld >= static_cast<int64_t>(x.rows);
  };
  if (k != (tb ? b.cols : b.rows) || d.rows != m || d.cols != n ||
      c.rows != m || c.cols != n || !fits(a) || !fits(b) || !fits(c) ||
      !fits(d) || a.type != b.type || c.type != d.type)
    return false;
  if (desc.epilogue == engine().settings.refuseEpilogue)
    return false;
  // Bias gradients: of an A that is not transposed, of a B that is.
  if ((desc.epilogue == lt::EpilogueBiasGradientA && ta) ||
      (desc.epilogue == lt::EpilogueBiasGradientB && !tb))
    return false;
  bool aux = desc.epilogue & lt::EpilogueAux;
  int64_t unit = usesBits(desc) ? 128 : 8;
  if (aux && (!desc.aux || reinterpret_cast<uintptr_t>(desc.aux) % 16 ||
              desc.auxLd % unit || desc.auxLd < static_cast<int64_t>(m) ||
              desc.auxStride % unit))
    return false;
  return !usesBias(desc) || desc.bias;
}

/// An algorithm may count on how the bias was aligned when it was chosen.
uint64_t alignmentOf(const Desc &desc) {
  uint64_t at = reinterpret_cast<uintptr_t>(desc.bias) | 16;
  return usesBias(desc) ? at & (~at + 1) : 16;
}
bool suits(const lt::Algo &algo, const Desc &desc) {
  return alignmentOf(desc) >= algo.data[3];
}

struct Product {
  Desc desc;
  Layout a, b, c, d;
  double alpha, beta;
  const void *pa, *pb, *pc;
  void *pd;

  void run() const {
    bool ta = desc.transA == lt::OpT, tb = desc.transB == lt::OpT;
    auto depth = static_cast<int64_t>(ta ? a.rows : a.cols);
    for (int64_t batch = 0; batch < d.batchCount; ++batch)
      for (int64_t j = 0; j < static_cast<int64_t>(d.cols); ++j)
        for (int64_t i = 0; i < static_cast<int64_t>(d.rows); ++i) {
          double sum = 0;
          for (int64_t x = 0; x < depth; ++x)
            sum +=
                get(pa,
                    batch * a.batchStride + (ta ? x + i * a.ld : i + x * a.ld),
                    a.type) *
                get(pb,
                    batch * b.batchStride + (tb ? j + x * b.ld : x + j * b.ld),
                    b.type);
          sum *= alpha;
          if (beta != 0)
            sum += beta * get(pc, batch * c.batchStride + i + j * c.ld, c.type);
          int64_t side = batch * desc.auxStride + i + j * desc.auxLd;
          auto bit = static_cast<uint8_t>(1 << side % 8);
          // Only the epilogues with a side tensor have one.
          auto byteOf = [&]() -> uint8_t & {
            return static_cast<uint8_t *>(desc.aux)[side / 8];
          };
          if (desc.epilogue == lt::EpilogueDGelu) {
            sum *= geluSlope(get(desc.aux, side, d.type));
          } else if (desc.epilogue == lt::EpilogueDRelu) {
            sum = byteOf() & bit ? sum : 0;
          } else {
            if (desc.epilogue & lt::EpilogueBias)
              sum +=
                  get(desc.bias, i, desc.biasType < 0 ? d.type : desc.biasType);
            if (usesBits(desc))
              byteOf() = static_cast<uint8_t>(sum > 0 ? byteOf() | bit
                                                      : byteOf() & ~bit);
            if (desc.epilogue & lt::EpilogueRelu)
              sum = sum > 0 ? sum : 0;
            if (desc.epilogue & lt::EpilogueGelu)
              sum = geluOf(sum);
          }
          put(pd, batch * d.batchStride + i + j * d.ld, d.type, sum);
        }
    if (givesSums(desc))
      writeSums();
  }

  /// Over k, of A for each row of D or of B for each column.
  void writeSums() const {
    bool ofA = desc.epilogue == lt::EpilogueBiasGradientA;
    const Layout &x = ofA ? a : b;
    for (int64_t i = 0; i < static_cast<int64_t>(x.rows); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < static_cast<int64_t>(x.cols); ++j)
        sum += get(ofA ? pa : pb, i + j * x.ld, x.type);
      put(const_cast<void *>(desc.bias), i, d.type, sum);
    }
  }
};
} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT size_t cublasLtGetVersion() { return 130000; }
EXPORT const char *cublasLtGetStatusString(int) { return "a recorded status"; }
EXPORT int cublasLtCreate(lt::Handle *handle) {
  static int one;
  *handle = &one;
  return lt::Success;
}
EXPORT int cublasLtDestroy(lt::Handle) { return lt::Success; }
EXPORT int cublasLtMatmulDescCreate(lt::MatmulDesc *desc, int compute,
                                    int scale) {
  auto *made = new Desc;
  made->compute = compute;
  made->scale = scale;
  *desc = made;
  return lt::Success;
}
EXPORT int cublasLtMatmulDescDestroy(lt::MatmulDesc desc) {
  delete static_cast<Desc *>(desc);
  return lt::Success;
}
EXPORT int cublasLtMatmulDescSetAttribute(lt::MatmulDesc handle, int attribute,
                                          const void *value, size_t bytes) {
  Desc &desc = *static_cast<Desc *>(handle);
  auto take = [&](auto &field) -> int {
    if (bytes != sizeof(field))
      return InvalidValue;
    std::memcpy(&field, value, bytes);
    return lt::Success;
  };
  switch (attribute) {
  case lt::DescTransA:
    return take(desc.transA);
  case lt::DescTransB:
    return take(desc.transB);
  case lt::DescEpilogue:
    return take(desc.epilogue);
  case lt::DescBiasPointer:
    return take(desc.bias);
  case lt::DescBiasDataType:
    return take(desc.biasType);
  case lt::DescAuxPointer:
    return take(desc.aux);
  case lt::DescAuxLd:
    return take(desc.auxLd);
  case lt::DescAuxBatchStride:
    return take(desc.auxStride);
  default:
    return InvalidValue;
  }
}
EXPORT int cublasLtMatrixLayoutCreate(lt::MatrixLayout *layout, int type,
                                      uint64_t rows, uint64_t cols,
                                      int64_t ld) {
  *layout = new Layout{type, rows, cols, ld};
  return lt::Success;
}
EXPORT int cublasLtMatrixLayoutDestroy(lt::MatrixLayout layout) {
  delete static_cast<Layout *>(layout);
  return lt::Success;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(lt::MatrixLayout handle,
                                            int attribute, const void *value,
                                            size_t bytes) {
  Layout &layout = *static_cast<Layout *>(handle);
  if (attribute == lt::LayoutBatchCount && bytes == 4)
    std::memcpy(&layout.batchCount, value, bytes);
  else if (attribute == lt::LayoutStridedBatchOffset && bytes == 8)
    std::memcpy(&layout.batchStride, value, bytes);
  else
    return InvalidValue;
  return lt::Success;
}
EXPORT int cublasLtMatmulPreferenceCreate(lt::Preference *preference) {
  static int one;
  *preference = &one;
  return lt::Success;
}
EXPORT int cublasLtMatmulPreferenceDestroy(lt::Preference) {
  return lt::Success;
}
EXPORT int cublasLtMatmulPreferenceSetAttribute(lt::Preference, int,
                                                const void *, size_t) {
  return lt::Success;
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(
    lt::Handle, lt::MatmulDesc desc, lt::MatrixLayout a, lt::MatrixLayout b,
    lt::MatrixLayout c, lt::MatrixLayout d, lt::Preference, int wanted,
    lt::HeuristicResult *results, int *found) {
  *found = 0;
  if (wanted < 1 || !allowed(descOf(desc), layoutOf(a), layoutOf(b),
                             layoutOf(c), layoutOf(d)))
    return NotSupported;
  Lock lock(engine().mutex);
  engine().log("cublaslt heuristics");
  *found = std::min(wanted, engine().settings.algorithms);
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algo.data[0] = marker;
    results[i].algo.data[1] = static_cast<uint64_t>(descOf(desc).epilogue);
    results[i].algo.data[2] = static_cast<uint64_t>(i);
    results[i].algo.data[3] = alignmentOf(descOf(desc));
  }
  return lt::Success;
}
EXPORT int cublasLtMatmulAlgoCheck(lt::Handle, lt::MatmulDesc desc,
                                   lt::MatrixLayout a, lt::MatrixLayout b,
                                   lt::MatrixLayout c, lt::MatrixLayout d,
                                   const lt::Algo *algo,
                                   lt::HeuristicResult *result) {
  *result = {};
  return algo->data[0] == marker && suits(*algo, descOf(desc)) &&
                 allowed(descOf(desc), layoutOf(a), layoutOf(b), layoutOf(c),
                         layoutOf(d))
             ? lt::Success
             : NotSupported;
}
EXPORT int cublasLtMatmul(lt::Handle, lt::MatmulDesc handle, const void *alpha,
                          const void *pa, lt::MatrixLayout a, const void *pb,
                          lt::MatrixLayout b, const void *beta, const void *pc,
                          lt::MatrixLayout c, void *pd, lt::MatrixLayout d,
                          const lt::Algo *algo, void *, size_t,
                          cu::Stream stream) {
  const Desc &desc = descOf(handle);
  if (algo->data[0] != marker ||
      algo->data[1] != static_cast<uint64_t>(desc.epilogue) ||
      !suits(*algo, desc) ||
      !allowed(desc, layoutOf(a), layoutOf(b), layoutOf(c), layoutOf(d)))
    return NotSupported;
  auto scalar = [&](const void *value) { return get(value, 0, desc.scale); };
  Product product{desc,         layoutOf(a), layoutOf(b),
                  layoutOf(c),  layoutOf(d), scalar(alpha),
                  scalar(beta), pa,          pb,
                  pc,           pd};
  auto work = std::make_shared<Work>();
  work->what = cat("cublaslt ", product.d.rows, "x", product.d.cols,
                   " epilogue ", desc.epilogue, " algorithm ", algo->data[2]);
  auto add = [&](const void *begin, int64_t elements, int type, bool writes) {
    auto at = reinterpret_cast<uintptr_t>(begin);
    work->ranges.push_back({at,
                            at + static_cast<size_t>(elements) * bytesOf(type),
                            !writes, writes});
  };
  add(pa, extent(product.a), product.a.type, false);
  add(pb, extent(product.b), product.b.type, false);
  if (product.beta != 0)
    add(pc, extent(product.c), product.c.type, false);
  if (usesBias(desc))
    add(desc.bias,
        static_cast<int64_t>(desc.epilogue == lt::EpilogueBiasGradientB
                                 ? product.d.cols
                                 : product.d.rows),
        product.d.type, givesSums(desc));
  if (desc.epilogue & lt::EpilogueAux) {
    Layout aux = product.d;
    aux.ld = desc.auxLd;
    aux.batchStride = desc.auxStride;
    if (usesBits(desc))
      work->ranges.push_back({reinterpret_cast<uintptr_t>(desc.aux),
                              reinterpret_cast<uintptr_t>(desc.aux) +
                                  static_cast<size_t>((extent(aux) + 7) / 8),
                              desc.epilogue == lt::EpilogueDRelu,
                              desc.epilogue != lt::EpilogueDRelu});
    else
      add(desc.aux, extent(aux), aux.type, false);
  }
  add(pd, extent(product.d), product.d.type, true);
  Lock lock(engine().mutex);
  int device = reinterpret_cast<recording::Stream *>(stream)->device;
  int64_t slow =
      (static_cast<int>(algo->data[2]) + device) % engine().settings.algorithms;
  const Settings &settings = engine().settings;
  if (desc.epilogue == settings.slowEpilogue &&
      (settings.slowDevice < 0 || settings.slowDevice == device))
    slow = 900;
  work->run = [product, device, slow] {
    product.run();
    engine().delays[device] += slow * 1000000000;
  };
  engine().enqueue(*reinterpret_cast<recording::Stream *>(stream), work);
  return lt::Success;
}
