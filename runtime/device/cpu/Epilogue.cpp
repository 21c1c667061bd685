//===- Epilogue.cpp - epilogues of GPUs, on the CPU -----------------------===//
#include "Epilogue.h"

#include "Bf16.h"

#include <cmath>

using namespace kerf::rt;

bool kerf::rt::hasGradientEpilogue(const LibraryDesc &desc) {
  return desc.kind == LibraryDesc::Matmul && !desc.postOps.empty() &&
         desc.postOps.back().kind == "gelu_tanh_gradient";
}

LibraryDesc kerf::rt::withoutGradient(const LibraryDesc &desc) {
  LibraryDesc plain = desc;
  plain.postOps.pop_back();
  return plain;
}

// With t = tanh(s (x + c x^3)): 1/2 (1 + t) + x/2 (1 - t^2) s (1 + 3 c x^2).
static double geluSlope(double x) {
  const double s = 0.7978845608028654, c = 0.044715;
  double t = std::tanh(s * (x + c * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * s * (1 + 3 * c * x * x);
}

namespace {
template <typename Wide, typename T>
void multiply(const Shape &dims, const Shape &to, const Shape &from, T *dst,
              const T *operand) {
  int64_t count = numElements(dims);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      a += rest % dims[d] * to[d];
      b += rest % dims[d] * from[d];
      rest /= dims[d];
    }
    dst[a] = static_cast<Wide>(static_cast<double>(dst[a]) *
                               geluSlope(static_cast<double>(operand[b])));
  }
}

class EpilogueCall : public LibraryCall {
public:
  EpilogueCall(const LibraryDesc &desc, std::unique_ptr<LibraryCall> plain,
               std::function<void()> after)
      : desc(desc), plain(std::move(plain)), after(std::move(after)) {}
  int64_t scratchBytes() const override { return plain->scratchBytes(); }
  void run(void *const *buffers, void *scratch) override {
    plain->run(buffers, scratch);
    applyGradient(desc, buffers);
    after();
  }

private:
  LibraryDesc desc;
  std::unique_ptr<LibraryCall> plain;
  std::function<void()> after;
};
} // namespace

void kerf::rt::applyGradient(const LibraryDesc &desc, void *const *buffers) {
  const Operand &slope = desc.postOps.back().operand;
  if (slope.kind != Operand::Buffer)
    throw Error(KERF_BAD_PACKAGE, "gelu_tanh_gradient of a parameter");
  Shape dims = desc.batch;
  dims.push_back(desc.m);
  dims.push_back(desc.n);
  auto strides = [&](const Operand &operand) {
    return operand.strides.empty() ? denseStrides(dims) : operand.strides;
  };
  auto all = [&](auto type, auto wide) {
    using T = decltype(type);
    multiply<decltype(wide)>(
        dims, strides(desc.dst), strides(slope),
        static_cast<T *>(buffers[desc.dst.index]) + desc.dst.offset,
        static_cast<const T *>(buffers[slope.index]) + slope.offset);
  };
  switch (desc.dstDtype) {
  case KERF_F32:
    return all(float(), float());
  case KERF_F64:
    return all(double(), double());
  case KERF_BF16:
    return all(Bf16(), float());
  default:
    throw Error(KERF_BAD_PACKAGE,
                cat("gelu_tanh_gradient of ", kerf_dtype_name(desc.dstDtype)));
  }
}

std::unique_ptr<LibraryCall> kerf::rt::makeEpilogueCall(
    const LibraryDesc &desc,
    const std::function<std::unique_ptr<LibraryCall>(const LibraryDesc &)>
        &plain,
    std::function<void()> after) {
  return std::make_unique<EpilogueCall>(desc, plain(withoutGradient(desc)),
                                        std::move(after));
}
