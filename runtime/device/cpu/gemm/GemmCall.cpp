//===- GemmCall.cpp - matmuls by kernels of our own -----------------------===//
//
// dst = finish(lhs rhs). The side with fewer lanes (rows of lhs, columns of
// rhs) is shared: a launch packs a slab of its k, all panels, into scratch
// memory. A second launch gives each thread a range of the other side's panels:
// it packs as many of them, for one block of k, as stay in its second-level
// cache, and multiplies them by all shared panels of the block. The next slab
// adds to dst.
//
//===----------------------------------------------------------------------===//
#include "GemmCall.h"

#include "../OpenMP.h"
#include "Gemm.h"

#include <algorithm>
#ifdef KERF_HAVE_X86_LEVELS
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace kerf::rt;

#ifdef KERF_HAVE_X86_LEVELS
/// Whether this process may use tile registers.
static bool mayUseTiles() {
  constexpr int requestPermission = 0x1023, tileData = 18;
  return ::syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}
#endif

const GemmKernels *kerf::rt::gemmKernels(GemmLevel level) {
#ifdef KERF_HAVE_X86_LEVELS
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl"))
    return nullptr;
  if (level == GemmLevel::Avx512)
    return gemmKernelsAvx512();
  static const bool hasTiles = __builtin_cpu_supports("avx512bw") &&
                               __builtin_cpu_supports("avx512bf16") &&
                               __builtin_cpu_supports("amx-tile") &&
                               __builtin_cpu_supports("amx-bf16") &&
                               mayUseTiles();
  if (hasTiles)
    return gemmKernelsAmx();
#endif
  return nullptr;
}

namespace {

/// A matrix in a buffer, in elements.
struct Matrix {
  int64_t buffer = 0, offset = 0, rowStride = 0, columnStride = 0;
};

class GemmCall : public LibraryCall {
public:
  GemmCall(const LibraryDesc &given, Device &device, int32_t threads,
           const GemmKernels &kernels)
      : desc(given), device(device), threads(threads), kernels(kernels) {}

  /// Whether the kernels can compute all operands and post-ops; sets the
  /// fields.
  bool prepare() {
    Shape batch = desc.batch;
    int64_t folded = numElements(batch);
    m = desc.m, n = desc.n, k = desc.k;
    auto dense = [](const Operand &o) {
      return o.strides.empty() && !o.transpose;
    };
    if (folded != 1) {
      // A batch with one rhs is a product of more rows, if all else is dense.
      bool sameRhs =
          desc.rhs.strides.size() == batch.size() + 2 &&
          std::all_of(desc.rhs.strides.begin(), desc.rhs.strides.end() - 2,
                      [](int64_t s) { return s == 0; });
      bool plain = dense(desc.lhs) && dense(desc.dst) && sameRhs;
      for (const PostOp &op : desc.postOps)
        plain = plain && dense(op.operand);
      if (!plain)
        return false;
      m = mulChecked(m, folded);
    }
    if (m < 16 || n < 16 || k < 16)
      return false;
    auto whole = [](const Operand &o, int64_t rows, int64_t columns) {
      Matrix result{o.index, o.offset, columns, 1};
      if (!o.strides.empty()) {
        result.rowStride = o.strides[o.strides.size() - 2];
        result.columnStride = o.strides.back();
      } else if (o.transpose) {
        result.rowStride = 1;
        result.columnStride = rows;
      }
      return result;
    };
    lhs = whole(desc.lhs, m, k);
    rhs = whole(desc.rhs, k, n);
    dst = whole(desc.dst, m, n);
    if (dst.columnStride != 1 || dst.rowStride < n || lhs.rowStride == 0 ||
        lhs.columnStride == 0 || rhs.rowStride == 0 || rhs.columnStride == 0)
      return false;
    if (desc.bias.kind != Operand::None) {
      Matrix bias{desc.bias.index, desc.bias.offset, 0, 1};
      if (!desc.bias.strides.empty())
        bias.columnStride = desc.bias.strides.back();
      if (desc.bias.kind != Operand::Buffer ||
          !addFinish(GemmFinish::Add, bias))
        return false;
    }
    for (const PostOp &op : desc.postOps) {
      if (op.kind == "sum") {
        if (&op != &desc.postOps.front())
          return false;
        sum = true;
      } else if (op.kind == "linear") {
        add(GemmFinish::Linear, op.alpha, op.beta);
      } else if (op.kind == "relu") {
        add(GemmFinish::Relu, 0, 0);
      } else if (op.kind == "add" || op.kind == "sub" || op.kind == "mul") {
        if (op.operand.kind != Operand::Buffer ||
            !addFinish(op.kind == "add"   ? GemmFinish::Add
                       : op.kind == "sub" ? GemmFinish::Sub
                                          : GemmFinish::Mul,
                       whole(op.operand, m, n)))
          return false;
      } else {
        return false;
      }
    }
    if (steps.size() > maxSteps)
      return false;
    planBlocks();
    return true;
  }

  int64_t scratchBytes() const override {
    return sharedBytes() + threads * chunkBytes;
  }

  void run(void *const *buffers, void *scratch) override {
    Job job;
    job.call = this;
    job.shared = static_cast<char *>(scratch);
    auto at = [&](const Matrix &matrix) {
      return static_cast<float *>(buffers[matrix.buffer]) + matrix.offset;
    };
    job.lhs = at(lhs), job.rhs = at(rhs), job.dst = at(dst);
    std::copy(steps.begin(), steps.end(), job.steps);
    for (size_t s = 0; s < steps.size(); ++s)
      if (operands[s].buffer >= 0)
        job.steps[s].data = at(operands[s]);
    void *data = &job;
    for (job.begin = 0; job.begin < k; job.begin = job.end) {
      job.end = std::min(job.begin + slab, k);
      device.launch(
          [](void *const *jobs, const int64_t *, int64_t begin, int64_t end) {
            const Job &job = *static_cast<const Job *>(jobs[0]);
            job.call->packShared(job, begin, end);
          },
          &data, nullptr, panels(shared), grain(panels(shared), 8));
      device.launch(
          [](void *const *jobs, const int64_t *, int64_t begin, int64_t end) {
            const Job &job = *static_cast<const Job *>(jobs[0]);
            job.call->multiply(job, begin, end);
          },
          &data, nullptr, panels(own()), grain(panels(own()), 1));
    }
  }

private:
  static constexpr size_t maxSteps = 8;
  struct Job {
    const GemmCall *call;
    const float *lhs, *rhs;
    float *dst;
    char *shared;
    GemmFinish steps[maxSteps];
    int64_t begin, end; ///< of the slab
  };

  void add(GemmFinish::Kind kind, double alpha, double beta) {
    steps.push_back({kind, static_cast<float>(alpha), static_cast<float>(beta),
                     nullptr, 0, 0});
    operands.push_back({-1, 0, 0, 0});
  }
  bool addFinish(GemmFinish::Kind kind, const Matrix &operand) {
    if (operand.columnStride != 1 && operand.columnStride != 0)
      return false;
    steps.push_back(
        {kind, 0, 0, nullptr, operand.rowStride, operand.columnStride});
    operands.push_back(operand);
    return true;
  }

  /// Iterations of a launch that are worth a thread.
  int64_t grain(int64_t count, int64_t min) const {
    return threads > 1 ? min : count;
  }
  bool own() const { return !shared; }
  int64_t width(bool side) const {
    return side ? kernels.columns : kernels.rows;
  }
  int64_t panels(bool side) const { return ceilDiv(side ? n : m, width(side)); }
  int64_t sharedBytes() const {
    int64_t bytes = ceilDiv(slab, block) * panels(shared) *
                    kernels.panelBytes(shared, block);
    return ceilDiv(bytes, int64_t(4096)) * 4096;
  }

  /// Blocks of equal length; a slab has as many of them as fit.
  void planBlocks() {
    shared = n < m;
    int64_t blocks = ceilDiv(k, kernels.depth);
    block = ceilDiv(ceilDiv(k, blocks), kernels.depthUnit) * kernels.depthUnit;
    int64_t bytes = panels(shared) * kernels.panelBytes(shared, block);
    int64_t max = std::max<int64_t>(kernels.slabBytes / bytes, 1);
    slab = block * ceilDiv(blocks, ceilDiv(blocks, max));
    int64_t panelBytes = kernels.panelBytes(own(), block);
    chunk =
        std::clamp<int64_t>(kernels.ownBytes / panelBytes, 1, panels(own()));
    chunkBytes = ceilDiv(chunk * panelBytes, int64_t(4096)) * 4096;
  }

  /// Packs panels [first, last) of a side, `depth` of k from `from` on.
  void pack(const Job &job, bool side, int64_t first, int64_t last,
            int64_t from, int64_t depth, void *to) const {
    const Matrix &matrix = side ? rhs : lhs;
    int64_t laneStride = side ? matrix.columnStride : matrix.rowStride;
    int64_t depthStride = side ? matrix.rowStride : matrix.columnStride;
    int64_t lane = first * width(side);
    kernels.pack((side ? job.rhs : job.lhs) + lane * laneStride +
                     from * depthStride,
                 laneStride, depthStride,
                 std::min((side ? n : m) - lane, (last - first) * width(side)),
                 side, depth, to);
  }

  /// Where block `from` of a shared panel lies: blocks are outermost.
  char *sharedAt(const Job &job, int64_t panel, int64_t from,
                 int64_t depth) const {
    return job.shared +
           (from - job.begin) / block * panels(shared) *
               kernels.panelBytes(shared, block) +
           panel * kernels.panelBytes(shared, depth);
  }

  void packShared(const Job &job, int64_t begin, int64_t end) const {
    for (int64_t from = job.begin; from < job.end; from += block) {
      int64_t depth = std::min(block, job.end - from);
      pack(job, shared, begin, end, from, depth,
           sharedAt(job, begin, from, depth));
    }
  }

  void multiply(const Job &job, int64_t begin, int64_t end) const {
    char *packed = job.shared + sharedBytes() + threadNumber() * chunkBytes;
    if (kernels.enter)
      kernels.enter();
    int64_t chunks = ceilDiv(end - begin, chunk);
    int64_t size = ceilDiv(end - begin, chunks);
    for (int64_t first = begin; first < end; first += size) {
      int64_t last = std::min(first + size, end);
      for (int64_t from = job.begin; from < job.end; from += block) {
        int64_t depth = std::min(block, job.end - from);
        pack(job, own(), first, last, from, depth, packed);
        // Loop order: for each group of rhs panels that fits the cache, all lhs
        // panels of this chunk. A private chunk of rhs is one group.
        int64_t group = shared ? groupOf(depth) : panels(shared);
        for (int64_t at = 0; at < panels(shared); at += group) {
          int64_t until = std::min(at + group, panels(shared));
          int64_t rowFirst = shared ? first : at,
                  rowLast = shared ? last : until;
          int64_t columnFirst = shared ? at : first,
                  columnLast = shared ? until : last;
          auto panelAt = [&](bool side, int64_t panel) -> const char * {
            return side == shared
                       ? sharedAt(job, panel, from, depth)
                       : packed +
                             (panel - first) * kernels.panelBytes(own(), depth);
          };
          for (int64_t i = rowFirst; i < rowLast; ++i)
            for (int64_t j = columnFirst; j < columnLast; ++j)
              multiplyTile(job, from, depth, panelAt(false, i),
                           panelAt(true, j), i, j);
        }
      }
    }
    if (kernels.leave)
      kernels.leave();
  }
  int64_t groupOf(int64_t depth) const {
    return std::max<int64_t>(
        kernels.groupBytes / kernels.panelBytes(true, depth), 1);
  }

  void multiplyTile(const Job &job, int64_t from, int64_t depth, const char *a,
                    const char *b, int64_t rowPanel,
                    int64_t columnPanel) const {
    int64_t row = rowPanel * kernels.rows,
            column = columnPanel * kernels.columns;
    int64_t rows = std::min(kernels.rows, m - row);
    int64_t columns = std::min(kernels.columns, n - column);
    float *c = job.dst + row * dst.rowStride + column;
    auto following = from + depth == k ? static_cast<int64_t>(steps.size()) : 0;
    kernels.tile(depth, a, b, c, dst.rowStride, rows, columns, sum || from != 0,
                 job.steps, following, row, column);
  }

  static int64_t threadNumber() {
    const OpenMP &omp = OpenMP::get();
    return omp.available() ? omp.threadNumber() : 0;
  }

  LibraryDesc desc;
  Device &device;
  int64_t threads;
  const GemmKernels &kernels;
  int64_t m = 0, n = 0, k = 0;
  bool shared = false;               ///< the side that all threads read
  int64_t block = 0, slab = 0;       ///< of k
  int64_t chunk = 0, chunkBytes = 0; ///< panels of the other side
  Matrix lhs, rhs, dst;
  bool sum = false;
  std::vector<GemmFinish> steps;
  std::vector<Matrix> operands; ///< of the steps; buffer -1: none
};

/// The number of multiplications, including those with padding of panels.
double paddedVolume(const LibraryDesc &desc, const GemmKernels &kernels) {
  auto whole = [](int64_t size, int64_t unit) {
    return static_cast<double>(ceilDiv(size, unit) * unit);
  };
  return whole(mulChecked(numElements(desc.batch), desc.m), kernels.rows) *
         whole(desc.n, kernels.columns) * whole(desc.k, kernels.depthUnit);
}

/// Tiles of bfloat16 parts are worth it unless they are mostly empty.
const GemmKernels *kernelsFor(const LibraryDesc &desc) {
  const GemmKernels *vectors = gemmKernels(GemmLevel::Avx512);
  const GemmKernels *tiles = gemmKernels(GemmLevel::Amx);
  if (!tiles || paddedVolume(desc, *tiles) > 1.5 * paddedVolume(desc, *vectors))
    return vectors;
  return tiles;
}
} // namespace

std::unique_ptr<LibraryCall>
kerf::rt::makeGemmCall(const LibraryDesc &desc, Device &device, int32_t threads,
                       const GemmKernels *kernels) {
  if (!kernels)
    kernels = kernelsFor(desc);
  if (!kernels || desc.kind != LibraryDesc::Matmul || desc.dtype != KERF_F32 ||
      desc.dstDtype != KERF_F32 || desc.lhs.kind != Operand::Buffer ||
      desc.rhs.kind != Operand::Buffer)
    return nullptr;
  auto call = std::make_unique<GemmCall>(desc, device, threads, *kernels);
  if (!call->prepare())
    return nullptr;
  return call;
}
