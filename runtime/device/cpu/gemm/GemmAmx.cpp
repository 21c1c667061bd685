//===- GemmAmx.cpp - tiles of a matmul in tile registers ------------------===//
//
// Problem: units that multiply bfloat16 make sixteen times as many products as
// those for f32, but of numbers with 8 bits.
//
// Idea: three numbers of 8 bits hold the 24 of an f32: x = x1 + x2 + x3, each
// rounded to nearest. Of the nine products of two such sums six are made: x1y1
// and those down to 2^-16 of it. What is left out (x2y3, x3y2, x3y3) is at most
// 2^-23 of the product, has either sign, and sums are f32 with fewer roundings
// than a chain of multiply-adds has. (Henry, Tang, Heinecke: Leveraging the
// bfloat16 Artificial Intelligence Datatype, 2019.)
//
// The units read subnormal numbers as 0. So a lane (a row of lhs, a column of
// rhs) whose largest magnitude is not in [2^-44, 2^50) is multiplied by the
// power of two that brings it to [1, 2), which is undone in the sum. The loss
// in a product is then below 2^-38 of the product of the two lanes' largest
// elements: about what rounding costs a sum with such an element.
//
// Infinities and NaN: the exponent of a lane with a NaN is NaN. In a lane with
// infinities these become 1 or -1, all other elements 0, and the exponent is
// infinity. So one infinity gives an infinity of the right sign in each
// element, or NaN where the other factor is 0 (or was lost, as above). Several
// infinities may give an infinity where IEEE has NaN, or the reverse.
//
// A panel: 32 exponents, then per 32 of k three parts of two tiles of 1 KiB.
// A tile has 16 x 16 pairs of k and k + 16: lhs lane by lane, rhs pair by pair.
//
//===----------------------------------------------------------------------===//
#include "GemmVectors.h"

using namespace kerf::rt;

namespace {

constexpr int64_t width = 32, stepOfK = 32, longest = 512;
constexpr int64_t parts = 3, tileBytes = 1024;
constexpr int64_t partBytes = 2 * tileBytes, stepBytes = parts * partBytes;
constexpr int64_t headerBytes = width * 4;

int64_t panelBytes(bool, int64_t depth) {
  return headerBytes + (depth + stepOfK - 1) / stepOfK * stepBytes;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

inline __m512i absolute(__m512 x) {
  return _mm512_and_epi32(_mm512_castps_si512(x),
                          _mm512_set1_epi32(0x7fffffff));
}

/// Exponents of the powers of two by which lanes with these magnitudes are
/// divided.
inline __m512 exponentsOf(__m512i largest) {
  // Never below the least number's, even where subnormal numbers are read as 0.
  // NaN is the second operand's.
  __m512 exponents = _mm512_max_ps(
      _mm512_set1_ps(-149), _mm512_getexp_ps(_mm512_castsi512_ps(largest)));
  __mmask16 scaled =
      _mm512_test_epi32_mask(largest, largest) &
      static_cast<__mmask16>(
          ~(_mm512_cmp_ps_mask(exponents, _mm512_set1_ps(-44), _CMP_GE_OQ) &
            _mm512_cmp_ps_mask(exponents, _mm512_set1_ps(50), _CMP_LT_OQ)));
  return _mm512_maskz_mov_ps(scaled, exponents);
}

/// Which magnitudes are infinite or NaN.
inline __mmask16 specialOf(__m512i largest) {
  return _mm512_cmpge_epu32_mask(largest, _mm512_set1_epi32(0x7f800000));
}

/// 1 or -1 for an infinity, 0 for all else.
inline __m512 infinities(__m512 x) {
  __m512i sign = _mm512_andnot_epi32(_mm512_set1_epi32(0x7fffffff),
                                     _mm512_castps_si512(x));
  __mmask16 infinite =
      _mm512_cmpeq_epi32_mask(absolute(x), _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(
      _mm512_maskz_or_epi32(infinite, sign, _mm512_set1_epi32(0x3f800000)));
}

/// The parts of 16 x 2 scaled numbers, those of x0 in the even places.
inline __attribute__((always_inline)) void split(__m512 x0, __m512 x1,
                                                 __m512i (&to)[parts]) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (int part = 0; part < parts; ++part) {
    __m512i both = _mm512_permutexvar_epi16(
        order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x1, x0)));
    to[part] = both;
    if (part + 1 == parts)
      return;
    x0 = _mm512_sub_ps(x0, _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)));
    x1 = _mm512_sub_ps(x1, _mm512_castsi512_ps(_mm512_and_epi32(
                               both, _mm512_set1_epi32(0xffff0000))));
  }
}

/// 16 lanes of one panel and the magnitudes found in them.
struct Lanes {
  const float *src = nullptr;
  int64_t stride = 0; ///< of lanes if k is contiguous, else of k
  int64_t count = 0;  ///< the lanes from here on are 0
  int64_t depth = 0;  ///< the elements of k from here on are 0
  __m512 exponents = _mm512_setzero_ps();
  __mmask16 special = 0;
  __m512i largest = _mm512_setzero_si512();

  void setLargest(__m512i sizes) {
    largest = sizes;
    exponents = exponentsOf(sizes);
    special = specialOf(sizes);
  }
};

inline void bringNearer(const float *at) {
  _mm_prefetch(reinterpret_cast<const char *>(at), _MM_HINT_T1);
}

/// Row i of a tile: lane i, 16 of k and the next 16.
inline void splitLane(const Lanes &lanes, const float *negated, int i,
                      __m512i (&to)[parts]) {
  bool valid = i < lanes.count;
  const float *from = lanes.src + i * lanes.stride;
  // The same of the next panel.
  bringNearer(from + width * lanes.stride);
  bringNearer(from + width * lanes.stride + lanesOfVector);
  __m512 x0 = _mm512_maskz_loadu_ps(valid ? firstLanes(lanes.depth) : 0, from);
  __m512 x1 =
      _mm512_maskz_loadu_ps(valid ? firstLanes(lanes.depth - lanesOfVector) : 0,
                            from + lanesOfVector);
  if (lanes.special >> i & 1) {
    x0 = infinities(x0);
    x1 = infinities(x1);
  } else {
    __m512 scale = _mm512_set1_ps(negated[i]);
    x0 = _mm512_scalef_ps(x0, scale);
    x1 = _mm512_scalef_ps(x1, scale);
  }
  split(x0, x1, to);
}

/// Row i of a tile: k = i and i + 16 of all lanes.
inline void splitPair(Lanes &lanes, __m512 negated, int i,
                      __m512i (&to)[parts]) {
  __mmask16 valid = firstLanes(lanes.count);
  const float *from = lanes.src + i * lanes.stride;
  // The same of the next step.
  bringNearer(from + 2 * lanesOfVector * lanes.stride);
  bringNearer(from + 3 * lanesOfVector * lanes.stride);
  __m512 x0 = _mm512_maskz_loadu_ps(i < lanes.depth ? valid : 0, from);
  __m512 x1 = _mm512_maskz_loadu_ps(i + lanesOfVector < lanes.depth ? valid : 0,
                                    from + lanesOfVector * lanes.stride);
  lanes.largest = _mm512_max_epu32(
      lanes.largest, _mm512_max_epu32(absolute(x0), absolute(x1)));
  if (lanes.special) {
    x0 = _mm512_mask_mov_ps(x0, lanes.special, infinities(x0));
    x1 = _mm512_mask_mov_ps(x1, lanes.special, infinities(x1));
  }
  split(_mm512_scalef_ps(x0, negated), _mm512_scalef_ps(x1, negated), to);
}

/// Packs the next step of k: a tile of each part, `partBytes` apart. If the
/// rows of a tile are contiguous in memory, they are written directly, else
/// transposed.
template <bool ByLane> void packTiles(Lanes &lanes, bool rhs, char *to) {
  __m512 negated = _mm512_maskz_sub_ps(static_cast<__mmask16>(~lanes.special),
                                       _mm512_setzero_ps(), lanes.exponents);
  alignas(64) float scales[lanesOfVector];
  _mm512_store_ps(scales, negated);
  bool transposed = rhs == ByLane;
  alignas(64) __m512 turned[parts][lanesOfVector];
  for (int i = 0; i < lanesOfVector; ++i) {
    __m512i rows[parts];
    if (ByLane)
      splitLane(lanes, scales, i, rows);
    else
      splitPair(lanes, negated, i, rows);
    for (int part = 0; part < parts; ++part)
      if (transposed)
        turned[part][i] = _mm512_castsi512_ps(rows[part]);
      else
        _mm512_store_si512(to + part * partBytes + i * 64, rows[part]);
  }
  lanes.src += stepOfK * (ByLane ? 1 : lanes.stride);
  lanes.depth -= stepOfK;
  if (!transposed)
    return;
  for (int part = 0; part < parts; ++part) {
    __m512 rows[lanesOfVector];
#pragma clang loop unroll(full)
    for (int i = 0; i < lanesOfVector; ++i)
      rows[i] = turned[part][i];
    transpose16(rows);
#pragma clang loop unroll(full)
    for (int i = 0; i < lanesOfVector; ++i)
      _mm512_store_ps(to + part * partBytes + i * 64, rows[i]);
  }
}

/// A panel whose k is contiguous.
void packByLane(const float *src, int64_t stride, int64_t lanes, bool rhs,
                int64_t depth, char *dst) {
  alignas(64) uint32_t sizes[width] = {};
  for (int64_t i = 0; i < lanes; ++i) {
    __m512i size = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k += lanesOfVector)
      size = _mm512_max_epu32(
          size, absolute(_mm512_maskz_loadu_ps(firstLanes(depth - k),
                                               src + i * stride + k)));
    sizes[i] = _mm512_reduce_max_epu32(size);
  }
  for (int64_t first = 0; first < width; first += lanesOfVector) {
    Lanes half{src + first * stride, stride, lanes - first, depth};
    half.setLargest(_mm512_load_si512(sizes + first));
    _mm512_store_ps(dst + first * 4, half.exponents);
    char *to = dst + headerBytes + first / lanesOfVector * tileBytes;
    for (; half.depth > 0; to += stepBytes)
      packTiles<true>(half, rhs, to);
  }
}

/// Packs panels of contiguous lanes, several at a time, so that memory is read
/// in longer runs and only once: magnitudes are found meanwhile, and lanes that
/// turn out to need a scale are packed again.
void packByDepth(const float *src, int64_t stride, int64_t lanes, bool rhs,
                 int64_t depth, char *dst) {
  constexpr int64_t together = 4, halves = 2 * together;
  int64_t bytes = panelBytes(rhs, depth);
  Lanes group[halves];
  auto start = [&](int64_t half) {
    group[half].src = src + half * lanesOfVector;
    group[half].stride = stride;
    group[half].count = lanes - half * lanesOfVector;
    group[half].depth = depth;
  };
  auto next = [&](int64_t half, int64_t k) {
    packTiles<false>(group[half], rhs,
                     dst + half / 2 * bytes + headerBytes +
                         k / stepOfK * stepBytes + half % 2 * tileBytes);
  };
  for (; lanes > 0; lanes -= together * width, src += together * width,
                    dst += together * bytes) {
    int64_t some = (lanes + width - 1) / width * 2;
    some = some < halves ? some : halves;
    for (int64_t half = 0; half < some; ++half) {
      group[half] = Lanes();
      start(half);
    }
    for (int64_t k = 0; k < depth; k += stepOfK)
      for (int64_t half = 0; half < some; ++half)
        next(half, k);
    for (int64_t half = 0; half < some; ++half) {
      Lanes &found = group[half];
      found.setLargest(found.largest);
      _mm512_store_ps(dst + half / 2 * bytes + half % 2 * 64, found.exponents);
      if (_mm512_cmp_ps_mask(found.exponents, _mm512_setzero_ps(),
                             _CMP_EQ_OQ) == 0xffff)
        continue;
      start(half);
      for (int64_t k = 0; k < depth; k += stepOfK)
        next(half, k);
    }
  }
}

void pack(const float *src, int64_t laneStride, int64_t depthStride,
          int64_t lanes, bool rhs, int64_t depth, void *to) {
  char *dst = static_cast<char *>(to);
  if (laneStride == 1)
    return packByDepth(src, depthStride, lanes, rhs, depth, dst);
  for (int64_t lane = 0; lane < lanes; lane += width) {
    const float *from = src + lane * laneStride;
    int64_t some = lanes - lane < width ? lanes - lane : width;
    float gathered[width * longest];
    int64_t stride = laneStride;
    if (depthStride != 1) {
      for (int64_t i = 0; i < some; ++i)
        for (int64_t k = 0; k < depth; ++k)
          gathered[i * longest + k] = from[i * laneStride + k * depthStride];
      from = gathered;
      stride = longest;
    }
    packByLane(from, stride, some, rhs, depth, dst);
    dst += panelBytes(rhs, depth);
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Prefetches rows [first, last) of c and of the operands of the steps behind
/// it.
inline void prefetchRows(const float *c, int64_t rowStride,
                         const GemmFinish *steps, int64_t count, int64_t row,
                         int64_t column, int64_t first, int64_t last) {
  for (int64_t s = -1; s < count; ++s) {
    const float *from = s < 0 ? c : steps[s].data;
    int64_t stride = s < 0 ? rowStride : steps[s].rowStride;
    if (!from || stride == 0)
      continue;
    if (s >= 0)
      from += row * stride + column;
    for (int64_t i = first; i < last; ++i) {
      auto *at = reinterpret_cast<const char *>(from + i * stride);
      _mm_prefetch(at, _MM_HINT_T0);
      _mm_prefetch(at + 124, _MM_HINT_T0);
    }
  }
}

#define KERF_LOAD_LHS(part)                                                    \
  _tile_loadd(4, a + part * partBytes, 64);                                    \
  if (Low)                                                                     \
  _tile_loadd(5, a + part * partBytes + tileBytes, 64)
#define KERF_LOAD_RHS(part)                                                    \
  _tile_loadd(6, b + part * partBytes, 64);                                    \
  if (Right)                                                                   \
  _tile_loadd(7, b + part * partBytes + tileBytes, 64)
#define KERF_MULTIPLY                                                          \
  _tile_dpbf16ps(0, 4, 6);                                                     \
  if (Right)                                                                   \
    _tile_dpbf16ps(1, 4, 7);                                                   \
  if (Low)                                                                     \
    _tile_dpbf16ps(2, 5, 6);                                                   \
  if (Low && Right)                                                            \
  _tile_dpbf16ps(3, 5, 7)

/// sums = a b; the lower and the right half of the tiles are used only if `Low`
/// and `Right`.
template <bool Low, bool Right, typename Between>
void multiply(int64_t depth, const char *a, const char *b, float *sums,
              Between &&between) {
  a += headerBytes;
  b += headerBytes;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t k = 0; k < depth; k += stepOfK) {
    between(k);
    KERF_LOAD_LHS(2);
    KERF_LOAD_RHS(0);
    KERF_MULTIPLY;
    KERF_LOAD_LHS(1);
    KERF_MULTIPLY;
    KERF_LOAD_RHS(1);
    KERF_MULTIPLY;
    KERF_LOAD_LHS(0);
    KERF_MULTIPLY;
    KERF_LOAD_RHS(2);
    KERF_MULTIPLY;
    KERF_LOAD_RHS(0);
    KERF_MULTIPLY;
    a += stepBytes;
    b += stepBytes;
  }
  _tile_stored(0, sums, width * 4);
  if (Right)
    _tile_stored(1, sums + 16, width * 4);
  if (Low)
    _tile_stored(2, sums + 16 * width, width * 4);
  if (Low && Right)
    _tile_stored(3, sums + 16 * width + 16, width * 4);
}
#undef KERF_LOAD_LHS
#undef KERF_LOAD_RHS
#undef KERF_MULTIPLY

void tile(int64_t depth, const void *packedA, const void *packedB, float *c,
          int64_t rowStride, int64_t rows, int64_t columns, bool accumulate,
          const GemmFinish *steps, int64_t count, int64_t row, int64_t column) {
  auto *a = static_cast<const char *>(packedA);
  auto *b = static_cast<const char *>(packedB);
  alignas(64) float sums[width * width];
  // Meanwhile rows of c are prefetched, some at each step.
  auto between = [&](int64_t k) {
    int64_t end = k + stepOfK < depth ? k + stepOfK : depth;
    prefetchRows(c, rowStride, steps, count, row, column, k * rows / depth,
                 end * rows / depth);
  };
  if (rows > 16 && columns > 16)
    multiply<true, true>(depth, a, b, sums, between);
  else if (rows > 16)
    multiply<true, false>(depth, a, b, sums, between);
  else if (columns > 16)
    multiply<false, true>(depth, a, b, sums, between);
  else
    multiply<false, false>(depth, a, b, sums, between);
  auto *rowExponents = reinterpret_cast<const float *>(a);
  for (int64_t j = 0; j < columns; j += lanesOfVector) {
    __m512 exponents = _mm512_load_ps(b + j * 4);
    __mmask16 mask = firstLanes(columns - j);
    for (int64_t i = 0; i < rows; ++i) {
      float *at = c + i * rowStride + j;
      __m512 x = _mm512_scalef_ps(
          _mm512_load_ps(sums + i * width + j),
          _mm512_add_ps(exponents, _mm512_set1_ps(rowExponents[i])));
      if (accumulate)
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, at));
      _mm512_mask_storeu_ps(at, mask, x);
    }
  }
  if (count != 0)
    finish(c, rowStride, rows, columns, steps, count, row, column);
}

/// The configuration of the tile registers: 16 rows of 64 bytes.
void enter() {
  alignas(64) struct {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {};
    uint8_t rows[16] = {};
  } shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.rowBytes[i] = 64;
    shapes.rows[i] = 16;
  }
  _tile_loadconfig(&shapes);
}

void leave() { _tile_release(); }

// A cache of 2 MiB.
constexpr GemmKernels kernels = {width,
                                 width,
                                 longest,
                                 stepOfK,
                                 int64_t(1) << 20,
                                 int64_t(800) << 10,
                                 int64_t(800) << 10,
                                 panelBytes,
                                 pack,
                                 tile,
                                 enter,
                                 leave};
} // namespace

const GemmKernels *kerf::rt::gemmKernelsAmx() { return &kernels; }
