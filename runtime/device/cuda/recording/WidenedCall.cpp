//===- WidenedCall.cpp - float16 where the CPU has none -------------------===//
#include "WidenedCall.h"

#include "../../../base/Types.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
std::vector<float> widened(const void *data, int64_t elements) {
  auto *halves = static_cast<const _Float16 *>(data);
  return std::vector<float>(halves, halves + elements);
}

class WidenedCall : public LibraryCall {
public:
  WidenedCall(Device &cpu, LibraryDesc wide, int64_t index,
              const std::function<ParameterView(int64_t)> &parameter,
              std::vector<CallBuffer> buffers)
      : buffers(std::move(buffers)), copies(this->buffers.size()) {
    // Factors have the type of the call, all else that of the result.
    bool wideResult = wide.dstDtype == KERF_F32;
    auto isFactor = [&](int64_t i) {
      auto is = [&](const Operand &o) {
        return o.kind == Operand::Param && o.index == i;
      };
      return is(wide.lhs) || is(wide.rhs);
    };
    wide.dtype = wide.dstDtype = KERF_F32;
    auto wideParameter = [&](int64_t i) {
      ParameterView view = parameter(i);
      if (wideResult && !isFactor(i))
        return view;
      auto values = std::make_shared<std::vector<float>>(
          widened(view.data, view.elements));
      return ParameterView{values->data(), view.elements, view.key + ".wide",
                           values, false};
    };
    call = cpu.prepare(wide, index, wideParameter);
  }
  int64_t scratchBytes() const override { return call->scratchBytes(); }

  void run(void *const *given, void *scratch) override {
    std::vector<void *> wide(given, given + buffers.size());
    for (size_t i = 0; i < buffers.size(); ++i)
      if (isHalf(i)) {
        copies[i] = widened(given[i], buffers[i].elements);
        wide[i] = copies[i].data();
      }
    call->run(wide.data(), scratch);
    for (size_t i = 0; i < buffers.size(); ++i)
      if (isHalf(i) && buffers[i].writes)
        std::copy(copies[i].begin(), copies[i].end(),
                  static_cast<_Float16 *>(given[i]));
  }

private:
  bool isHalf(size_t i) const {
    return buffers[i].dtype == KERF_F16 && buffers[i].elements != 0;
  }
  std::vector<CallBuffer> buffers;
  std::vector<std::vector<float>> copies;
  std::unique_ptr<LibraryCall> call;
};
} // namespace

std::unique_ptr<LibraryCall> kerf::rt::makeWidenedCall(
    Device &cpu, const LibraryDesc &desc, int64_t index,
    const std::function<ParameterView(int64_t)> &parameter,
    std::vector<CallBuffer> buffers) {
  return std::make_unique<WidenedCall>(cpu, desc, index, parameter,
                                       std::move(buffers));
}
