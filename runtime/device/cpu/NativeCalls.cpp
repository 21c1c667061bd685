//===- NativeCalls.cpp - library calls of our own -------------------------===//
//
// Every call is one parallel loop in which each element of the result belongs
// to one iteration, and is summed in a fixed order: the bits do not depend on
// the number of threads. Operands are dense.
//
//===----------------------------------------------------------------------===//
#include "NativeCalls.h"
#include "GreedySuppress.h"
#include "RankedKeys.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

using namespace kerf::rt;

namespace {

/// Operand k of the call, shifted by its offset.
template <typename T>
T *pointerOf(const Operand &operand, void *const *buffers) {
  return static_cast<T *>(buffers[operand.index]) + operand.offset;
}

class NativeCall : public LibraryCall {
public:
  NativeCall(const LibraryDesc &given, Device &device)
      : desc(given), device(device) {
    for (const Operand *operand : desc.operands())
      if (operand->kind == Operand::Param || !operand->strides.empty() ||
          operand->transpose)
        throw Error(KERF_BAD_PACKAGE,
                    cat(desc.kindName(), " takes dense buffers"));
    if (!desc.postOps.empty())
      throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " takes no post-ops"));
  }
  int64_t scratchBytes() const override { return 0; }
  void run(void *const *buffers, void *) override {
    void *job[] = {this, const_cast<void **>(buffers)};
    device.launch(
        [](void *const *data, const int64_t *, int64_t begin, int64_t end) {
          static_cast<const NativeCall *>(data[0])->runRange(
              static_cast<void *const *>(data[1]), begin, end);
        },
        job, nullptr, iterations, grain);
  }

protected:
  virtual void runRange(void *const *buffers, int64_t begin,
                        int64_t end) const = 0;
  LibraryDesc desc;
  Device &device;
  int64_t iterations = 0, grain = 1;
};

/// What threads work with, kept from step to step.
template <typename T> class Pool {
public:
  /// One of them, while it lives.
  class Lease {
  public:
    explicit Lease(Pool &pool) : pool(pool), item(pool.take()) {}
    Lease(const Lease &) = delete;
    ~Lease() { pool.give(std::move(item)); }
    T &operator*() const { return *item; }
    T *operator->() const { return item.get(); }

  private:
    Pool &pool;
    std::unique_ptr<T> item;
  };

private:
  std::unique_ptr<T> take() {
    std::lock_guard lock(mutex);
    if (idle.empty())
      return std::make_unique<T>();
    std::unique_ptr<T> item = std::move(idle.back());
    idle.pop_back();
    return item;
  }
  void give(std::unique_ptr<T> item) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(item));
  }

  std::mutex mutex;
  std::vector<std::unique_ptr<T>> idle;
};

//===----------------------------------------------------------------------===//
// Sums of rows
//===----------------------------------------------------------------------===//

// An iteration is a row of dst; a thread goes through all indices once and adds
// those rows that are its own.
/// The row of dst that index i names, which may not exist.
int64_t rowOf(const LibraryDesc &desc, const void *indices, int64_t i) {
  int64_t row = desc.indexDtype == KERF_I64
                    ? static_cast<const int64_t *>(indices)[i]
                    : static_cast<const int32_t *>(indices)[i];
  return row < 0 && !desc.partial ? row + desc.rows : row;
}

const void *indicesOf(const LibraryDesc &desc, void *const *buffers) {
  return desc.indexDtype == KERF_I64
             ? static_cast<const void *>(pointerOf<int64_t>(desc.rhs, buffers))
             : pointerOf<int32_t>(desc.rhs, buffers);
}

template <typename T> class ScatterAdd : public NativeCall {
public:
  ScatterAdd(const LibraryDesc &given, Device &device)
      : NativeCall(given, device) {
    iterations = desc.inner && desc.outer ? desc.rows : 0;
    // Each range looks at all indices.
    int64_t work = std::max<int64_t>(desc.outer * desc.inner, 1);
    grain = std::max<int64_t>((1 << 14) / work, desc.count / 4 + 1);
  }

private:
  void runRange(void *const *buffers, int64_t begin,
                int64_t end) const override {
    const T *updates = pointerOf<T>(desc.lhs, buffers);
    T *dst = pointerOf<T>(desc.dst, buffers);
    const T *base = desc.bias.kind == Operand::Buffer
                        ? pointerOf<T>(desc.bias, buffers)
                        : nullptr;
    const void *indices = indicesOf(desc, buffers);
    int64_t inner = desc.inner;
    for (int64_t o = 0; o < desc.outer; ++o) {
      T *block = dst + o * desc.rows * inner;
      size_t bytes = static_cast<size_t>((end - begin) * inner) * sizeof(T);
      if (!base)
        std::memset(block + begin * inner, 0, bytes);
      else if (base != dst)
        std::memcpy(block + begin * inner,
                    base + (o * desc.rows + begin) * inner, bytes);
      for (int64_t i = 0; i < desc.count; ++i) {
        int64_t row = rowOf(desc, indices, i);
        if (row < begin || row >= end)
          continue;
        const T *from = updates + (o * desc.count + i) * inner;
        T *to = block + row * inner;
        for (int64_t c = 0; c < inner; ++c)
          to[c] += from[c];
      }
    }
  }
};

//===----------------------------------------------------------------------===//
// Rows changed by index
//===----------------------------------------------------------------------===//

// Sums and products of integers wrap.
template <typename T> T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <typename T> T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

// An iteration is a row of dst, of any outer index; a thread goes through the
// indices of each outer index that it has rows of.
template <typename T> class Scatter : public NativeCall {
public:
  Scatter(const LibraryDesc &given, Device &device)
      : NativeCall(given, device) {
    iterations = desc.inner ? desc.outer * desc.rows : 0;
    // Each range looks at all indices of its rows.
    grain = std::max({(1 << 14) / std::max<int64_t>(desc.inner, 1),
                      std::min(desc.rows, desc.count / 4 + 1), int64_t(1)});
  }

private:
  void runRange(void *const *buffers, int64_t begin,
                int64_t end) const override {
    const T *updates = pointerOf<T>(desc.lhs, buffers);
    const T *base = pointerOf<T>(desc.bias, buffers);
    T *dst = pointerOf<T>(desc.dst, buffers);
    const void *indices = indicesOf(desc, buffers);
    int64_t inner = desc.inner;
    if (base != dst)
      std::memcpy(dst + begin * inner, base + begin * inner,
                  static_cast<size_t>((end - begin) * inner) * sizeof(T));
    for (int64_t o = begin / desc.rows; o * desc.rows < end; ++o) {
      int64_t first = o * desc.rows;
      int64_t low = std::max<int64_t>(begin - first, 0),
              high = std::min(end - first, desc.rows);
      for (int64_t i = o * desc.count; i < (o + 1) * desc.count; ++i) {
        int64_t row = rowOf(desc, indices, i);
        if (row >= low && row < high)
          change(dst + (first + row) * inner, updates + i * inner);
      }
    }
  }

  void change(T *to, const T *from) const {
    auto each = [&](auto combine) {
      for (int64_t c = 0; c < desc.inner; ++c)
        to[c] = combine(to[c], from[c]);
    };
    switch (desc.update) {
    case LibraryDesc::Set:
      std::memmove(to, from, static_cast<size_t>(desc.inner) * sizeof(T));
      break;
    case LibraryDesc::Add:
      each(added<T>);
      break;
    case LibraryDesc::Mul:
      each(multiplied<T>);
      break;
    case LibraryDesc::Min: // NaN stays, and comes with the second
      each([](T a, T b) { return a != a || a < b ? a : b; });
      break;
    case LibraryDesc::Max:
      each([](T a, T b) { return a != a || a > b ? a : b; });
      break;
    }
  }
};

//===----------------------------------------------------------------------===//
// Largest elements of rows
//===----------------------------------------------------------------------===//

struct Sorting {
  std::vector<RankedKey> keys;
  KeySorter sorter;
};

// An iteration is a row. The best so far are a heap in the result, with the
// last of them on top, and are sorted in the end: n log k steps, no scratch.
// Where many of many elements of 32 bits are wanted they are sorted by digits.
template <typename T> class TopK : public NativeCall {
public:
  TopK(const LibraryDesc &given, Device &device) : NativeCall(given, device) {
    iterations = desc.count ? desc.outer : 0;
    grain = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(desc.rows, 1));
  }

private:
  void runRange(void *const *buffers, int64_t begin,
                int64_t end) const override {
    Pool<Sorting>::Lease sorting(idle);
    for (int64_t o = begin; o < end; ++o) {
      const T *x = pointerOf<T>(desc.lhs, buffers) + o * desc.rows;
      int64_t *best = pointerOf<int64_t>(desc.dst, buffers) + o * desc.count;
      if constexpr (sizeof(T) == sizeof(uint32_t))
        if (desc.count > 512 && desc.count > desc.rows / 32 &&
            desc.rows <= UINT32_MAX) {
          sort(x, best, *sorting);
          continue;
        }
      if (desc.smallest)
        select(best, [x](int64_t a, int64_t b) {
          return follows(x[b], x[a]) || (!follows(x[a], x[b]) && a < b);
        });
      else
        select(best, [x](int64_t a, int64_t b) {
          return follows(x[a], x[b]) || (!follows(x[b], x[a]) && a < b);
        });
    }
  }

  void sort(const T *x, int64_t *best, Sorting &sorting) const {
    std::vector<RankedKey> &keys = sorting.keys;
    keys.resize(static_cast<size_t>(desc.rows));
    for (int64_t i = 0; i < desc.rows; ++i) {
      uint32_t rank = rankOf(x[i]);
      keys[i] = keyOf(desc.smallest ? ~rank : rank, static_cast<uint32_t>(i));
    }
    sorting.sorter.sort(keys.data(), keys.size());
    for (int64_t i = 0; i < desc.count; ++i)
      best[i] = placeOf(keys[i]);
  }

  /// a > b, where NaN is larger than every number.
  static bool follows(T a, T b) { return a != a ? b == b : a > b; }

  template <typename Before> void select(int64_t *best, Before before) const {
    int64_t *end = best + desc.count;
    for (int64_t i = 0; i < desc.count; ++i)
      best[i] = i;
    std::make_heap(best, end, before);
    for (int64_t i = desc.count; i < desc.rows; ++i)
      if (before(i, best[0])) {
        std::pop_heap(best, end, before);
        end[-1] = i;
        std::push_heap(best, end, before);
      }
    std::sort_heap(best, end, before);
  }

  mutable Pool<Sorting> idle;
};

//===----------------------------------------------------------------------===//
// Boxes that no better one overlaps
//===----------------------------------------------------------------------===//

// An iteration is a row, of a class of a sample; classes share boxes.
class GreedySuppress : public NativeCall {
public:
  GreedySuppress(const LibraryDesc &given, Device &device)
      : NativeCall(given, device) {
    iterations = desc.count ? desc.outer * desc.inner : 0;
    grain = std::max<int64_t>(1, (1 << 10) / std::max<int64_t>(desc.rows, 1));
  }

private:
  void runRange(void *const *buffers, int64_t begin,
                int64_t end) const override {
    Suppressor::Limits limits{desc.rows, desc.count,
                              *pointerOf<int64_t>(desc.most, buffers),
                              *pointerOf<float>(desc.bias, buffers)};
    Pool<Suppressor>::Lease suppressor(idle);
    const float *boxes = pointerOf<float>(desc.lhs, buffers),
                *scores = pointerOf<float>(desc.rhs, buffers);
    int64_t *dst = pointerOf<int64_t>(desc.dst, buffers);
    for (int64_t o = begin; o < end; ++o)
      suppressor->run(limits, boxes + o / desc.inner * desc.rows * 4,
                      scores + o * desc.rows, dst + o * desc.count);
  }

  mutable Pool<Suppressor> idle;
};

/// The call for the elements that calls by index take.
template <template <typename> class Call>
std::unique_ptr<LibraryCall> makeIndexed(const LibraryDesc &desc,
                                         Device &device) {
  switch (desc.dtype) {
  case KERF_F32:
    return std::make_unique<Call<float>>(desc, device);
  case KERF_F64:
    return std::make_unique<Call<double>>(desc, device);
  case KERF_I32:
    return std::make_unique<Call<int32_t>>(desc, device);
  case KERF_I64:
    return std::make_unique<Call<int64_t>>(desc, device);
  default:
    throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " does not take ",
                                      kerf_dtype_name(desc.dtype)));
  }
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

constexpr int64_t channelBlock = 64;

// Where a number is larger than the best so far it takes its place.
__attribute__((always_inline)) inline void
keepLargerBody(const float *row, int32_t number, float *best, int32_t *where,
               int64_t width) {
  for (int64_t c = 0; c < width; ++c) {
    float value = row[c];
    bool larger = !(value <= best[c]) & (best[c] == best[c]);
    best[c] = larger ? value : best[c];
    where[c] = larger ? number : where[c];
  }
}
using KeepLarger = void (*)(const float *, int32_t, float *, int32_t *,
                            int64_t);
void keepLarger(const float *row, int32_t number, float *best, int32_t *where,
                int64_t width) {
  keepLargerBody(row, number, best, where, width);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) void keepLargerAvx2(const float *row,
                                                    int32_t number, float *best,
                                                    int32_t *where,
                                                    int64_t width) {
  if (width == channelBlock)
    return keepLargerBody(row, number, best, where, channelBlock);
  keepLargerBody(row, number, best, where, width);
}
KeepLarger chooseKeepLarger() {
  return __builtin_cpu_supports("avx2") ? keepLargerAvx2 : keepLarger;
}
#else
KeepLarger chooseKeepLarger() { return keepLarger; }
#endif

// An iteration is a block of channels of one image: windows overlap within it.
class PoolGradient : public NativeCall {
public:
  PoolGradient(const LibraryDesc &given, Device &device)
      : NativeCall(given, device) {
    if (desc.dtype != KERF_F32)
      throw Error(KERF_BAD_PACKAGE, cat(desc.kindName(), " takes f32"));
    // Always three dimensions in space.
    auto pad = [](Shape &shape, int64_t fill) {
      shape.insert(shape.begin(), 3 - shape.size(), fill);
    };
    for (Shape *ones :
         {&desc.in, &desc.out, &desc.kernel, &desc.strides, &desc.dilations})
      pad(*ones, 1);
    for (Shape *zeros : {&desc.padsLow, &desc.padsHigh, &desc.countHigh})
      pad(*zeros, 0);
    blocks = ceilDiv(desc.inChannels, blockSize);
    iterations = desc.batch[0] * blocks;
    int64_t work = numElements(desc.out) * numElements(desc.kernel) * blockSize;
    grain = std::max<int64_t>((1 << 14) / std::max<int64_t>(work, 1), 1);
  }

private:
  static constexpr int64_t blockSize = channelBlock;

  /// Calls visit(position in the image) for every position of a window that
  /// lies inside, in row-major order.
  template <typename Visit>
  void forWindow(const int64_t *out, Visit &&visit) const {
    int64_t at[3];
    for (int64_t a = 0; a < desc.kernel[0]; ++a) {
      at[0] = place(out, 0, a);
      if (at[0] < 0 || at[0] >= desc.in[0])
        continue;
      for (int64_t b = 0; b < desc.kernel[1]; ++b) {
        at[1] = place(out, 1, b);
        if (at[1] < 0 || at[1] >= desc.in[1])
          continue;
        for (int64_t c = 0; c < desc.kernel[2]; ++c) {
          at[2] = place(out, 2, c);
          if (at[2] >= 0 && at[2] < desc.in[2])
            visit((at[0] * desc.in[1] + at[1]) * desc.in[2] + at[2]);
        }
      }
    }
  }
  int64_t place(const int64_t *out, int d, int64_t k) const {
    return out[d] * desc.strides[d] + k * desc.dilations[d] - desc.padsLow[d];
  }

  void runRange(void *const *buffers, int64_t begin,
                int64_t end) const override {
    int64_t channels = desc.inChannels;
    int64_t inSize = numElements(desc.in), outSize = numElements(desc.out);
    bool max = desc.kind == LibraryDesc::MaxPoolGradient;
    for (int64_t i = begin; i < end; ++i) {
      int64_t image = i / blocks, first = i % blocks * blockSize;
      int64_t width = std::min(blockSize, channels - first);
      const float *dy = pointerOf<float>(desc.rhs, buffers) +
                        image * outSize * channels + first;
      float *dx = pointerOf<float>(desc.dst, buffers) +
                  image * inSize * channels + first;
      for (int64_t p = 0; p < inSize; ++p)
        std::memset(dx + p * channels, 0,
                    static_cast<size_t>(width) * sizeof(float));
      int64_t out[3];
      for (out[0] = 0; out[0] < desc.out[0]; ++out[0])
        for (out[1] = 0; out[1] < desc.out[1]; ++out[1])
          for (out[2] = 0; out[2] < desc.out[2]; ++out[2]) {
            if (max)
              addMax(out,
                     pointerOf<float>(desc.lhs, buffers) +
                         image * inSize * channels + first,
                     dy, dx, width);
            else
              addMean(out, dy, dx, width);
            dy += channels;
          }
    }
  }

  void addMax(const int64_t *out, const float *x, const float *dy, float *dx,
              int64_t width) const {
    float best[blockSize];
    int32_t where[blockSize];
    bool any = false;
    int64_t channels = desc.inChannels;
    forWindow(out, [&](int64_t position) {
      const float *row = x + position * channels;
      auto number = static_cast<int32_t>(position);
      if (!any) {
        any = true;
        for (int64_t c = 0; c < width; ++c) {
          best[c] = row[c];
          where[c] = number;
        }
        return;
      }
      keep(row, number, best, where, width);
    });
    if (any)
      for (int64_t c = 0; c < width; ++c)
        dx[int64_t(where[c]) * channels + c] += dy[c];
  }

  void addMean(const int64_t *out, const float *dy, float *dx,
               int64_t width) const {
    // What the mean divides by: positions inside the image, or inside the
    // padding that counts.
    int64_t count = 1;
    for (int d = 0; d < 3; ++d) {
      int64_t low = desc.countPadding ? -desc.padsLow[d] : 0;
      int64_t high = desc.in[d] + (desc.countPadding ? desc.countHigh[d] : 0);
      int64_t inside = 0;
      for (int64_t k = 0; k < desc.kernel[d]; ++k) {
        int64_t at = place(out, d, k);
        inside += at >= low && at < high;
      }
      count *= inside;
    }
    if (count == 0)
      return;
    float divisor = static_cast<float>(count);
    float share[blockSize];
    for (int64_t c = 0; c < width; ++c)
      share[c] = dy[c] / divisor;
    forWindow(out, [&](int64_t position) {
      float *row = dx + position * desc.inChannels;
      for (int64_t c = 0; c < width; ++c)
        row[c] += share[c];
    });
  }

  int64_t blocks = 1;
  KeepLarger keep = chooseKeepLarger();
};

} // namespace

bool kerf::rt::isNativeCall(const LibraryDesc &desc) {
  switch (desc.kind) {
  case LibraryDesc::MaxPoolGradient:
  case LibraryDesc::AvgPoolGradient:
  case LibraryDesc::ScatterAdd:
  case LibraryDesc::Scatter:
  case LibraryDesc::TopK:
  case LibraryDesc::GreedySuppress:
    return true;
  default:
    return false;
  }
}

std::unique_ptr<LibraryCall> kerf::rt::makeNativeCall(const LibraryDesc &desc,
                                                      Device &device) {
  switch (desc.kind) {
  case LibraryDesc::MaxPoolGradient:
  case LibraryDesc::AvgPoolGradient:
    return std::make_unique<PoolGradient>(desc, device);
  case LibraryDesc::ScatterAdd:
    if (desc.dtype == KERF_F32)
      return std::make_unique<ScatterAdd<float>>(desc, device);
    if (desc.dtype == KERF_F64)
      return std::make_unique<ScatterAdd<double>>(desc, device);
    throw Error(KERF_BAD_PACKAGE,
                cat("scatter_add does not take ", kerf_dtype_name(desc.dtype)));
  case LibraryDesc::Scatter:
    return makeIndexed<Scatter>(desc, device);
  case LibraryDesc::TopK:
    return makeIndexed<TopK>(desc, device);
  case LibraryDesc::GreedySuppress:
    return std::make_unique<GreedySuppress>(desc, device);
  default:
    return nullptr;
  }
}
