//===- Manifest.h - manifest.json in memory ---------------------*- C++ -*-===//
//
// The structs of docs/Package.md, after parsing and checking: every index, size
// and shape in a Manifest can be relied on.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_PACKAGE_MANIFEST_H
#define KERF_RUNTIME_PACKAGE_MANIFEST_H

#include "../base/Mesh.h"
#include "../comm/Comm.h"

#include <string>
#include <vector>

namespace kerf::rt {

struct FileEntry {
  std::string path;
  int64_t bytes = 0;
  std::string xxh3;
};

/// A file outside the package from which parameters are mapped.
struct ExternalFile {
  std::string path;
  int64_t bytes = 0;
};

/// Numbers that are drawn instead of stored: element i of the stored tensor
/// `tensor` of shape `externalShape` depends on (seed, tensor, i) alone, so
/// that every mesh and device gets the same.
struct SeededValues {
  uint64_t seed = 0;
  bool normal = false;          ///< else uniform
  double first = 0, second = 1; ///< mean and deviation, or [low, high)
};

/// The number that all elements of a parameter are: as a float, and as an
/// integer, since a double does not hold each of 64 bits.
struct SplatValue {
  double real = 0;
  int64_t integer = 0;
  bool isZero() const { return real == 0 && integer == 0; }
};

struct Parameter {
  enum Source { Tensor, External, Splat, Derived, Seeded };
  Source source = Splat;
  std::string name, tensor;
  int64_t externalFile = 0, externalOffset = 0;
  Shape externalShape;
  SplatValue splat;
  SeededValues seeded;
  kerf_dtype_t dtype = KERF_F32;
  Shape globalShape, localShape;
  bool hasView = false;
  Shape viewStarts;
  Sharding sharding;
  std::vector<int64_t> stages; ///< empty: all
  bool libraryOnly = false;
  bool initOnly = false; ///< released once the derived ones are computed
  /// Steps write it: every rank has memory of its own, filled at load.
  bool isMutable = false;

  bool heldBy(int64_t stage) const;
};

struct GlobalTensor {
  std::string name;
  kerf_dtype_t dtype = KERF_F32;
  Shape globalShape, localShape;
  Sharding sharding;
  int64_t rangeLow = 0, rangeHigh = 2;
  /// Of an output: dimensions whose size is the most that they may have, each
  /// with the output that says how much of it there is.
  struct Bound {
    int64_t dim, length;
  };
  std::vector<Bound> bounded;
  bool isLength = false; ///< an output that is there for these alone
};

struct Operand {
  enum Kind { None, Buffer, Param };
  Kind kind = None;
  int64_t index = 0, offset = 0;
  Shape strides; ///< empty: dense
  bool transpose = false;
};

struct PostOp {
  std::string kind;
  double alpha = 0, beta = 0;
  Operand operand;
};

/// How a kernel is launched on a GPU; see docs/Cuda.md.
struct CudaKernel {
  struct Access {
    bool reads = true, writes = true;
    int64_t bytes = 0; ///< 0: unknown
  };
  std::string entry; ///< empty: the kernel has no GPU form
  int64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  int64_t sharedBytes = 0, buffers = 0, scalars = 0;
  bool fails = false;         ///< takes a failure record
  std::vector<Access> access; ///< per buffer; may be empty
  /// Of a library call's kernel: which of its buffers; empty: all in order.
  std::vector<int64_t> arguments;
  /// The kernel that does this and others of its kind in one launch; see
  /// device/cuda/Batches.h.
  struct Batch {
    std::string entry; ///< empty: none
    int64_t elements = 0, chunk = 1, threads = 0;
  } batch;
};

/// Sizes of attention, and what LibraryDesc has no operands for.
struct AttentionDesc {
  int64_t heads = 0, keyHeads = 0, queries = 0, keys = 0, headSize = 0,
          valueSize = 0;
  double scale = 1;
  bool causal = false;
  kerf_dtype_t biasDtype = KERF_F32;
  Operand v, stats;          ///< stats: written, or read by the gradient
  Operand out, diff, dk, dv; ///< gradient
};

struct LibraryDesc;

/// Sums over k of an operand that a matmul may write besides its result, and
/// that the program otherwise computes by a kernel; see docs/Package.md.
struct BiasGradient {
  Operand sums; ///< none: not offered
  bool ofRhs = false;
  int64_t rows = 1; ///< of the buffer; the first has the sums, others zeros
  int64_t kernel = -1, kernelBytes = 0; ///< the alternative, its traffic
  bool offered() const { return sums.kind != Operand::None; }
  int64_t columns(const LibraryDesc &desc) const;
};

/// For a matmul whose result a kernel masks, in place, where the result of an
/// earlier matmul with ReLU is not positive: the two calls could do that
/// instead; see docs/Package.md.
struct ReluGradient {
  int64_t forward = -1; ///< the earlier call; -1: not offered
  int64_t kernel = -1, kernelBytes = 0;
  bool offered() const { return forward >= 0; }
};

struct LibraryDesc {
  enum Kind {
    Matmul,
    Conv,
    Pool,
    ConvInputGradient,
    ConvWeightGradient,
    MaxPoolGradient,
    AvgPoolGradient,
    ScatterAdd,
    Scatter,
    TopK,
    GreedySuppress,
    Attention,
    AttentionGradient
  };
  /// What a scatter does with an element and its update.
  enum Update { Set, Add, Mul, Min, Max };
  /// By kind, as packages name them.
  static constexpr const char *kindNames[] = {"matmul",
                                              "conv",
                                              "pool",
                                              "conv_input_gradient",
                                              "conv_weight_gradient",
                                              "max_pool_gradient",
                                              "avg_pool_gradient",
                                              "scatter_add",
                                              "scatter",
                                              "top_k",
                                              "greedy_suppress",
                                              "attention",
                                              "attention_gradient"};
  Kind kind = Matmul;
  std::string node, algorithm, phase;
  kerf_dtype_t dtype = KERF_F32;    ///< of operands; scatter_add: of dst
  kerf_dtype_t dstDtype = KERF_F32; ///< matmul, conv: and of what follows
  Shape batch;                 ///< matmul: batch dims; conv, pool: one entry
  int64_t m = 0, n = 0, k = 0; ///< matmul
  int64_t inChannels = 0, outChannels = 0, groups = 1; ///< pool: in == out
  Shape in, out, kernel, strides, padsLow, padsHigh, dilations;
  Shape countHigh;           ///< avg_pool_gradient, see docs/Package.md
  bool countPadding = false; ///< avg_pool_gradient
  bool partial = false;      ///< scatter_add, scatter
  bool smallest = false;     ///< top_k
  Update update = Set;       ///< scatter
  kerf_dtype_t indexDtype = KERF_I64;
  /// scatter_add, scatter; top_k, without `inner`; greedy_suppress, where
  /// `inner` are classes.
  int64_t outer = 1, rows = 0, inner = 1, count = 0;
  /// conv: src and weights; pool: src. Gradients: what the forward read and
  /// the gradient of its result, in this order. scatter_add, scatter: updates,
  /// indices; `bias` is the base. top_k: src.
  /// greedy_suppress: boxes, scores; `bias` is the threshold, `most` a number.
  /// attention: queries and keys, the mask; dst is out, or dq.
  Operand lhs, rhs, bias, most, dst;
  AttentionDesc attention;
  std::vector<PostOp> postOps;
  BiasGradient biasGradient; ///< matmul
  ReluGradient reluGradient; ///< matmul
  int64_t index = -1;        ///< in the manifest's list
  /// Answers the call on a GPU if its entry is not empty; of attention, where
  /// the GPU's library does not.
  CudaKernel cuda;

  int64_t numBuffers() const;
  const char *kindName() const { return kindNames[kind]; }
  std::vector<const Operand *> operands() const;
  bool isAttention() const {
    return kind == Attention || kind == AttentionGradient;
  }
};

struct KernelEntry {
  std::string name, node;
  std::string phase; ///< of a training step; empty: forward
  CudaKernel cuda;
};

/// The GPU code of a package.
struct CudaTarget {
  struct Cubin {
    int arch = 0; ///< 90: sm_90
    std::string file;
  };
  bool used = false; ///< target.device is "cuda"
  std::string ptx;   ///< file; may be empty
  int ptxArch = 0;
  std::vector<Cubin> cubins;
};

struct FunctionDesc {
  struct Io {
    std::string name;
    kerf_dtype_t dtype = KERF_F32;
    Shape shape;
    int64_t bytes() const { return numBytes(shape, dtype); }
  };
  std::string symbol;
  int64_t scratchBytes = 0, numArguments = 0;
  std::vector<Io> ios;
};

struct Instruction {
  enum Op { Input, Run, Send, Recv, Output, Zero };
  Op op = Run;
  int64_t index = 0, microBatch = 0;
  std::vector<int64_t> slots;
  /// input: the part that is wanted, and its shape.
  Sharding sharding;
  Shape localShape;
};

struct Slot {
  std::string name;
  int64_t offset = 0, bytes = 0;
};

/// A function that runs once at load and writes derived parameters.
struct InitCall {
  int64_t function = 0;
  std::vector<int64_t> parameters;
};

struct StageDesc {
  std::vector<InitCall> init;
  int64_t arenaBytes = 0, scratchOffset = 0, scratchBytes = 0;
  int64_t plannedBytes = 0; ///< the plan's peak per rank; 0: not said
  std::vector<Slot> slots;
  std::vector<Instruction> instructions;
};

struct Manifest {
  std::string name, targetCpu, precision, program, weights;
  CudaTarget cuda;
  std::vector<std::string> targetFeatures;
  int64_t abi = 0;
  Mesh mesh;
  std::vector<FileEntry> files;
  std::vector<ExternalFile> externalFiles;
  std::vector<Parameter> parameters;
  std::vector<GlobalTensor> inputs, outputs;
  std::vector<KernelEntry> kernels;
  std::vector<LibraryDesc> library;
  std::vector<CollectiveDesc> collectives;
  std::vector<AxisList> shardIndices;
  std::vector<ChannelDesc> channels;
  std::vector<FunctionDesc> functions;
  std::vector<StageDesc> stages;
};

/// The numbers of outputs that are the model's: all but the lengths of others.
std::vector<int64_t> modelOutputs(const Manifest &manifest);

/// Parses and checks manifest.json. Throws KERF_BAD_PACKAGE naming the entry.
Manifest parseManifest(const char *text, size_t bytes);

/// Checks that concern several entries: instruction lists against slots,
/// functions and channels. Called by parseManifest.
void checkStages(const Manifest &manifest);

} // namespace kerf::rt

#endif // KERF_RUNTIME_PACKAGE_MANIFEST_H
