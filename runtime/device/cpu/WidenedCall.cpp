//===- WidenedCall.cpp - 16 bits where the library has none ---------------===//
#include "WidenedCall.h"

#include "../../base/Types.h"
#include "../TouchedRanges.h"
#include "Bf16.h"
#include "Team.h"

#include <algorithm>

using namespace kerf::rt;

namespace {

bool isNarrow(kerf_dtype_t dtype) {
  return dtype == KERF_F16 || dtype == KERF_BF16;
}

constexpr int64_t kBlock = 4096; ///< elements that one iteration converts

template <typename From, typename To>
void convertRange(void *const *buffers, const int64_t *scalars, int64_t begin,
                  int64_t end) {
  auto *from = static_cast<const From *>(buffers[0]);
  auto *to = static_cast<To *>(buffers[1]);
  for (int64_t i = begin * kBlock, n = std::min(end * kBlock, scalars[0]);
       i < n; ++i)
    to[i] = static_cast<float>(from[i]);
}

template <typename Narrow>
std::shared_ptr<std::vector<float>> widened(const ParameterView &view) {
  auto *from = static_cast<const Narrow *>(view.data);
  return std::make_shared<std::vector<float>>(from, from + view.elements);
}

/// A buffer of the call, its copy in float32.
struct Copy {
  int64_t buffer, elements, offset; ///< bytes into the scratch
  kerf_dtype_t dtype;
  bool writes;
};

class WidenedCall : public LibraryCall {
public:
  WidenedCall(const LibraryDesc &desc, Device &cpu, int64_t index,
              const std::function<ParameterView(int64_t)> &parameter)
      : cpu(cpu), numBuffers(desc.numBuffers()) {
    LibraryDesc wide = desc;
    wide.dtype = wide.dstDtype = KERF_F32;
    // Factors have the type of the call, all else that of the result.
    auto dtypeOf = [desc](int64_t i) {
      auto is = [&](const Operand &o) {
        return o.kind == Operand::Param && o.index == i;
      };
      return is(desc.lhs) || is(desc.rhs) ? desc.dtype : desc.dstDtype;
    };
    call = cpu.prepare(wide, index, [&](int64_t i) {
      ParameterView view = parameter(i);
      kerf_dtype_t dtype = dtypeOf(i);
      if (!isNarrow(dtype))
        return view;
      auto values =
          dtype == KERF_F16 ? widened<_Float16>(view) : widened<Bf16>(view);
      return ParameterView{values->data(), view.elements, view.key + ".wide",
                           values, false};
    });
    place(desc);
  }

  int64_t scratchBytes() const override { return bytes; }

  void run(void *const *given, void *scratch) override {
    std::copy(given, given + numBuffers, wide.begin());
    for (const Copy &copy : copies) {
      void *&at = wide[static_cast<size_t>(copy.buffer)];
      at = static_cast<char *>(scratch) + copy.offset;
      convert(copy.dtype == KERF_F16 ? convertRange<_Float16, float>
                                     : convertRange<Bf16, float>,
              given[copy.buffer], at, copy.elements);
    }
    call->run(wide.data(), scratch);
    for (const Copy &copy : copies)
      if (copy.writes)
        convert(copy.dtype == KERF_F16 ? convertRange<float, _Float16>
                                       : convertRange<float, Bf16>,
                wide[static_cast<size_t>(copy.buffer)], given[copy.buffer],
                copy.elements);
  }

private:
  /// Copies stand behind what the call itself needs.
  void place(const LibraryDesc &desc) {
    wide.resize(static_cast<size_t>(numBuffers));
    std::vector<Copy> all(wide.size());
    for (const TouchedRange &range : touchedRanges(desc)) {
      if (!isNarrow(range.dtype))
        continue;
      Copy &copy = all[static_cast<size_t>(range.buffer)];
      copy.buffer = range.buffer;
      copy.dtype = range.dtype;
      copy.elements = std::max(copy.elements, (range.begin + range.bytes) /
                                                  dtypeSize(range.dtype));
      copy.writes |= range.writes;
    }
    auto aligned = [](int64_t size) {
      return mulChecked(ceilDiv(size, KERF_BUFFER_ALIGNMENT),
                        KERF_BUFFER_ALIGNMENT);
    };
    bytes = aligned(call->scratchBytes());
    for (Copy &copy : all) {
      if (copy.elements == 0)
        continue;
      copy.offset = bytes;
      bytes =
          addChecked(bytes, aligned(mulChecked(copy.elements, sizeof(float))));
      copies.push_back(copy);
    }
  }

  void convert(kerf_kernel_t kernel, void *from, void *to, int64_t elements) {
    void *buffers[] = {from, to};
    cpu.launch(kernel, buffers, &elements, ceilDiv(elements, kBlock),
               grainOf({0, 6 * kBlock}));
  }

  Device &cpu;
  int64_t numBuffers, bytes = 0;
  std::unique_ptr<LibraryCall> call;
  std::vector<Copy> copies;
  std::vector<void *> wide;
};
} // namespace

bool kerf::rt::isBrainFloat(const LibraryDesc &desc) {
  return desc.dtype == KERF_BF16 || desc.dstDtype == KERF_BF16;
}

std::unique_ptr<LibraryCall> kerf::rt::makeWidenedCall(
    const LibraryDesc &desc, Device &cpu, int64_t index,
    const std::function<ParameterView(int64_t)> &parameter) {
  return std::make_unique<WidenedCall>(desc, cpu, index, parameter);
}
