//===- ManifestLibrary.cpp - library calls of manifest.json ---------------===//
//
// Operands, post-ops and the kinds of calls, as docs/Package.md has them.
//
//===----------------------------------------------------------------------===//
#include "ManifestLibrary.h"

#include "AttentionOperands.h"

#include <cmath>
#include <limits>
#include <set>

using namespace kerf::rt;

namespace {

Operand parseOperand(const JsonReader &in, const Parameters &parameters,
                     size_t rank) {
  Operand op;
  if (in.has("buffer") == in.has("param"))
    in.fail("expected exactly one of \"buffer\" and \"param\"");
  if (in.has("buffer")) {
    op.kind = Operand::Buffer;
    op.index = in["buffer"].integer(0, 63);
  } else {
    op.kind = Operand::Param;
    op.index =
        in["param"].integer(0, static_cast<int64_t>(parameters.size()) - 1);
    if (parameters[op.index].isMutable)
      in["param"].fail("parameter \"" + parameters[op.index].name +
                       "\" is mutable: it is a buffer of the call");
  }
  op.offset = in.integerOr("offset", 0, JsonReader::maxInteger, 0);
  op.transpose = in.has("transpose") && in["transpose"].boolean();
  if (in.has("strides")) {
    op.strides = in["strides"].shape();
    if (op.transpose)
      in.fail("strides and transpose exclude each other");
    if (op.strides.size() != rank)
      in["strides"].fail(
          cat("has ", op.strides.size(), " entries, expected ", rank));
  }
  if (op.transpose && rank < 2)
    in.fail("transpose needs two dimensions");
  return op;
}

PostOp parsePostOp(const JsonReader &in, const Parameters &parameters,
                   size_t rank) {
  PostOp op;
  op.kind = in["kind"].string();
  op.alpha = in.numberOr("alpha", 0);
  op.beta = in.numberOr("beta", 0);
  if (in.has("operand"))
    op.operand = parseOperand(in["operand"], parameters, rank);
  return op;
}

/// How many pointers the program hands to a call stands nowhere; but each is an
/// operand's, so a number that is too large leaves a gap below it.
void checkBuffers(const JsonReader &in, const LibraryDesc &lib) {
  std::set<int64_t> numbers;
  for (const Operand *operand : lib.operands())
    if (operand->kind == Operand::Buffer)
      numbers.insert(operand->index);
  for (int64_t number = 0; number < lib.numBuffers(); ++number)
    if (!numbers.count(number))
      in.fail(cat("no operand is buffer ", number, " of ", lib.numBuffers()));
}

void parseWindow(const JsonReader &in, LibraryDesc &lib) {
  lib.batch = {in["batch"].size64()};
  lib.in = in["in"].shape();
  size_t spatial = lib.in.size();
  if (spatial < 1 || spatial > 3)
    in["in"].fail("expected 1 to 3 spatial dimensions");
  auto window = [&](const char *key, int64_t low) {
    if (in[key].size() != spatial)
      in[key].fail(cat("expected ", spatial, " entries"));
    Shape values = in[key].shape();
    for (size_t d = 0; d < spatial; ++d)
      if (values[d] < low || values[d] > (int64_t(1) << 31))
        in[key][d].fail(cat("expected at least ", low, " and at most 2^31"));
    return values;
  };
  lib.out = window("out", 0);
  lib.kernel = window("kernel", 1);
  lib.strides = window("strides", 1);
  lib.padsLow = window("pads_low", 0);
  lib.padsHigh = window("pads_high", 0);
  lib.dilations = window("dilations", 1);
  for (size_t d = 0; d < spatial; ++d) {
    int64_t room = lib.in[d] + lib.padsLow[d] + lib.padsHigh[d] -
                   ((lib.kernel[d] - 1) * lib.dilations[d] + 1);
    int64_t out = room < 0 ? 0 : room / lib.strides[d] + 1;
    if (lib.out[d] != out && lib.kind != LibraryDesc::AvgPoolGradient &&
        lib.kind != LibraryDesc::MaxPoolGradient)
      in["out"][d].fail(cat("is ", lib.out[d], ", the window gives ", out));
  }
}

bool parseWindowKind(const std::string &kind, LibraryDesc::Kind &result) {
  for (LibraryDesc::Kind known :
       {LibraryDesc::Conv, LibraryDesc::Pool, LibraryDesc::ConvInputGradient,
        LibraryDesc::ConvWeightGradient, LibraryDesc::MaxPoolGradient,
        LibraryDesc::AvgPoolGradient}) {
    result = known;
    LibraryDesc named;
    named.kind = known;
    if (kind == named.kindName())
      return true;
  }
  return false;
}

// [outer.., rows, inner..]: `count` slices of updates go to rows of dst.
void parseScatter(const JsonReader &in, LibraryDesc &lib) {
  lib.outer = in["outer"].size64();
  lib.rows = in["rows"].size64();
  lib.inner = in["inner"].size64();
  lib.count = in["count"].size64();
  for (int64_t count : {lib.rows, lib.count})
    in.located([&] {
      return mulChecked(mulChecked(lib.outer, count), mulChecked(lib.inner, 8));
    });
  lib.partial = in.has("partial") && in["partial"].boolean();
  lib.indexDtype = in["index_dtype"].dtype();
  if (lib.indexDtype != KERF_I64 && lib.indexDtype != KERF_I32)
    in["index_dtype"].fail("expected i64 or i32");
}

LibraryDesc::Update parseUpdate(const JsonReader &in) {
  static constexpr const char *names[] = {"set", "add", "mul", "min", "max"};
  std::string name = in.string();
  for (size_t i = 0; i < std::size(names); ++i)
    if (name == names[i])
      return static_cast<LibraryDesc::Update>(i);
  in.fail("expected set, add, mul, min or max");
}

// The elements that calls by index take.
void checkIndexed(const JsonReader &in, kerf_dtype_t dtype) {
  if (dtype != KERF_F32 && dtype != KERF_F64 && dtype != KERF_I32 &&
      dtype != KERF_I64)
    in["dtype"].fail("expected f32, f64, i32 or i64");
}

// [outer, rows]: the indices of the best `count` of each row.
void parseTopK(const JsonReader &in, LibraryDesc &lib) {
  checkIndexed(in, lib.dtype);
  if (lib.dstDtype != KERF_I64)
    in.fail("expected dst_dtype i64");
  lib.outer = in["outer"].size64();
  lib.rows = in["rows"].size64();
  lib.count = in["count"].integer(0, lib.rows);
  lib.smallest = in.has("smallest") && in["smallest"].boolean();
  in.located([&] { return mulChecked(mulChecked(lib.outer, lib.rows), 8); });
}

// [outer, classes, count]: the boxes of each class that are kept, of `rows`.
void parseGreedySuppress(const JsonReader &in, LibraryDesc &lib) {
  if (lib.dtype != KERF_F32)
    in["dtype"].fail("expected f32");
  if (lib.dstDtype != KERF_I64)
    in.fail("expected dst_dtype i64");
  lib.outer = in["outer"].size64();
  lib.inner = in["classes"].size64();
  lib.rows = in["rows"].integer(0, UINT32_MAX);
  lib.count = in["count"].integer(0, lib.rows);
  in.located([&] {
    return mulChecked(mulChecked(lib.outer, lib.rows),
                      mulChecked(lib.inner, 16));
  });
}

void parseAttention(const JsonReader &in, const Parameters &parameters,
                    LibraryDesc &lib) {
  AttentionDesc &a = lib.attention;
  auto size = [&](const char *key, int64_t low) {
    return in[key].integer(low, int64_t(1) << 31);
  };
  lib.batch = {size("batch", 0)};
  a.heads = size("heads", 0);
  a.keyHeads = size("key_heads", 1);
  if (a.heads % a.keyHeads)
    in["key_heads"].fail("does not divide the heads");
  a.queries = size("queries", 0);
  a.keys = size("keys", 1);
  a.headSize = size("head_size", 0);
  a.valueSize = size("value_size", 0);
  a.scale = in["scale"].number();
  a.causal = in.has("causal") && in["causal"].boolean();
  if (lib.dtype != KERF_F32 && lib.dtype != KERF_BF16 && lib.dtype != KERF_F16)
    in["dtype"].fail("attention takes f32, bf16 or f16");
  a.biasDtype = in.has("bias_dtype") ? in["bias_dtype"].dtype() : lib.dtype;
  if (a.biasDtype != KERF_F32 && a.biasDtype != lib.dtype)
    in["bias_dtype"].fail("expected f32 or the type of the operands");
  if (lib.dstDtype != lib.dtype)
    in["dst_dtype"].fail("expected the type of the operands");
  for (const AttentionOperand &known : attentionOperands(lib)) {
    if (known.optional && !in.has(known.name))
      continue;
    // The list points into `lib`.
    auto &operand = const_cast<Operand &>(*known.operand);
    operand = parseOperand(in[known.name], parameters, known.dims.size());
    if (operand.kind != Operand::Buffer || operand.transpose)
      in[known.name].fail("expected a buffer without transpose");
    in.located([&] {
      int64_t elements = 1;
      for (int64_t dim : known.dims)
        elements = mulChecked(elements, dim);
      return mulChecked(elements, 8);
    });
  }
}

// The kernel that a call could replace: it must write exactly what the call
// would. Returns the bytes that it moves.
int64_t parseReplaced(const JsonReader &in,
                      const std::vector<KernelEntry> &kernels, int64_t written,
                      int64_t &number) {
  number = in["kernel"].integer(0, static_cast<int64_t>(kernels.size()) - 1);
  const CudaKernel &kernel = kernels[number].cuda;
  bool plain = !kernel.entry.empty() && !kernel.fails && !kernel.scalars &&
               !kernel.access.empty() && !kernel.access.back().reads;
  int64_t moved = 0;
  for (size_t i = 0; i < kernel.access.size(); ++i) {
    plain &= kernel.access[i].writes == (i + 1 == kernel.access.size());
    moved += kernel.access[i].bytes;
  }
  if (!plain || kernel.access.back().bytes != written)
    in["kernel"].fail(cat("expected a kernel for GPUs that writes ", written,
                          " bytes to its last buffer and does nothing else"));
  return moved;
}

bool isPlain(const LibraryDesc &lib) {
  return lib.kind == LibraryDesc::Matmul && lib.batch.empty() &&
         lib.bias.kind == Operand::None && lib.postOps.empty();
}

void parseBiasGradient(const JsonReader &in, LibraryDesc &lib,
                       const std::vector<KernelEntry> &kernels) {
  BiasGradient &gradient = lib.biasGradient;
  if (!isPlain(lib))
    in.fail("expected a matmul without batch, bias and post-ops");
  std::string operand = in["operand"].string();
  gradient.ofRhs = operand == "rhs";
  if (!gradient.ofRhs && operand != "lhs")
    in["operand"].fail("expected lhs or rhs");
  gradient.sums.kind = Operand::Buffer;
  gradient.sums.index = in["buffer"].integer(0, 63);
  for (const Operand *other : {&lib.lhs, &lib.rhs, &lib.dst})
    if (other->kind == Operand::Buffer && other->index == gradient.sums.index)
      in["buffer"].fail("is one of the product's own");
  gradient.rows = in["rows"].integer(1, int64_t(1) << 31);
  int64_t bytes = in.located([&] {
    return mulChecked(mulChecked(gradient.rows, gradient.columns(lib)),
                      dtypeSize(lib.dstDtype));
  });
  gradient.kernelBytes = parseReplaced(in, kernels, bytes, gradient.kernel);
}

void parseReluGradient(const JsonReader &in, LibraryDesc &lib,
                       const std::vector<KernelEntry> &kernels) {
  ReluGradient &gradient = lib.reluGradient;
  if (!isPlain(lib) || lib.biasGradient.offered())
    in.fail("expected a matmul without batch, bias, bias_gradient and "
            "post-ops");
  gradient.forward = in["forward"].integer(0, JsonReader::maxInteger);
  int64_t bytes = in.located([&] {
    return mulChecked(mulChecked(lib.m, lib.n), dtypeSize(lib.dstDtype));
  });
  gradient.kernelBytes = parseReplaced(in, kernels, bytes, gradient.kernel);
}

// Of the call with ReLU that `lib` names.
void checkForward(const JsonReader &place, const LibraryDesc &lib,
                  const std::vector<LibraryDesc> &library) {
  if (lib.reluGradient.forward >= lib.index)
    place.fail("expected a call before this one");
  const LibraryDesc &relu = library[lib.reluGradient.forward];
  if (relu.kind != LibraryDesc::Matmul || !relu.batch.empty() ||
      relu.postOps.empty() || relu.postOps.back().kind != "relu" ||
      relu.m != lib.m || relu.n != lib.n)
    place.fail(cat("expected a matmul of ", lib.m, "x", lib.n,
                   " without batch that ends with relu"));
  for (const Operand *dst : {&relu.dst, &lib.dst})
    if (dst->offset != 0 || dst->transpose ||
        (!dst->strides.empty() && dst->strides != denseStrides({lib.m, lib.n})))
      place.fail("expected products that are stored dense");
}

} // namespace

LibraryDesc kerf::rt::parseLibrary(const JsonReader &in,
                                   const Parameters &parameters,
                                   const std::vector<KernelEntry> &kernels) {
  LibraryDesc lib;
  std::string kind = in["kind"].string();
  lib.node = in.stringOr("node", "");
  lib.phase = in.stringOr("phase", "");
  lib.dtype = in["dtype"].dtype();
  lib.dstDtype = in.has("dst_dtype") ? in["dst_dtype"].dtype() : lib.dtype;
  auto operand = [&](const char *key, size_t rank) {
    return parseOperand(in[key], parameters, rank);
  };
  size_t rank;
  if (kind == "matmul") {
    lib.kind = LibraryDesc::Matmul;
    lib.batch = in["batch"].shape();
    if (lib.batch.size() > 4)
      in["batch"].fail("expected at most 4 batch dimensions");
    lib.m = in["m"].size64();
    lib.n = in["n"].size64();
    lib.k = in["k"].size64();
    rank = lib.batch.size() + 2;
    lib.lhs = operand("lhs", rank);
    lib.rhs = operand("rhs", rank);
  } else if (kind == "scatter_add") {
    lib.kind = LibraryDesc::ScatterAdd;
    parseScatter(in, lib);
    rank = 3;
    lib.lhs = operand("updates", rank);
    lib.rhs = operand("indices", 1);
    if (in.has("base"))
      lib.bias = operand("base", rank);
  } else if (kind == "scatter") {
    lib.kind = LibraryDesc::Scatter;
    checkIndexed(in, lib.dtype);
    parseScatter(in, lib);
    lib.update = parseUpdate(in["update"]);
    rank = 3;
    lib.lhs = operand("updates", rank);
    lib.rhs = operand("indices", 2);
    lib.bias = operand("base", rank);
  } else if (kind == "top_k") {
    lib.kind = LibraryDesc::TopK;
    parseTopK(in, lib);
    rank = 2;
    lib.lhs = operand("src", rank);
  } else if (kind == "greedy_suppress") {
    lib.kind = LibraryDesc::GreedySuppress;
    parseGreedySuppress(in, lib);
    rank = 3;
    lib.lhs = operand("boxes", rank);
    lib.rhs = operand("scores", rank);
    lib.bias = operand("threshold", 1);
    lib.most = operand("most", 1);
  } else if (kind == "attention" || kind == "attention_gradient") {
    lib.kind = kind == "attention" ? LibraryDesc::Attention
                                   : LibraryDesc::AttentionGradient;
    parseAttention(in, parameters, lib);
    if (in.has("post_ops"))
      in["post_ops"].fail("attention takes no post-ops");
    return lib;
  } else if (parseWindowKind(kind, lib.kind)) {
    parseWindow(in, lib);
    rank = lib.in.size() + 2;
    bool isConv = lib.kind == LibraryDesc::Conv ||
                  lib.kind == LibraryDesc::ConvInputGradient ||
                  lib.kind == LibraryDesc::ConvWeightGradient;
    if (isConv) {
      lib.inChannels = in["in_channels"].integer(1, 1 << 30);
      lib.outChannels = in["out_channels"].integer(1, 1 << 30);
      lib.groups = in["groups"].integer(1, lib.inChannels);
      if (lib.inChannels % lib.groups || lib.outChannels % lib.groups)
        in["groups"].fail("does not divide the channels");
    } else {
      lib.inChannels = lib.outChannels = in["channels"].integer(1, 1 << 30);
    }
    switch (lib.kind) {
    case LibraryDesc::Conv:
      lib.lhs = operand("src", rank);
      lib.rhs = operand("weights", rank);
      break;
    case LibraryDesc::ConvInputGradient:
      lib.lhs = operand("weights", rank);
      lib.rhs = operand("diff", rank);
      break;
    case LibraryDesc::ConvWeightGradient:
    case LibraryDesc::MaxPoolGradient:
      lib.lhs = operand("src", rank);
      lib.rhs = operand("diff", rank);
      break;
    case LibraryDesc::AvgPoolGradient:
      lib.rhs = operand("diff", rank);
      lib.countPadding =
          in.has("count_padding") && in["count_padding"].boolean();
      lib.countHigh =
          in.has("count_high") ? in["count_high"].shape() : lib.padsHigh;
      if (lib.countHigh.size() != lib.in.size())
        in["count_high"].fail(cat("expected ", lib.in.size(), " entries"));
      break;
    default:
      lib.lhs = operand("src", rank);
      lib.algorithm = in["algorithm"].string();
    }
  } else {
    in["kind"].fail("unknown library call \"" + kind + "\"");
  }
  if (in.has("bias") && lib.bias.kind == Operand::None)
    lib.bias = operand("bias", 1);
  lib.dst = operand("dst", rank);
  if (lib.dst.kind != Operand::Buffer)
    in["dst"].fail("expected a buffer");
  lib.postOps = in.list<PostOp>("post_ops", [&](const JsonReader &p) {
    return parsePostOp(p, parameters, rank);
  });
  if (in.has("bias_gradient"))
    parseBiasGradient(in["bias_gradient"], lib, kernels);
  if (in.has("relu_gradient"))
    parseReluGradient(in["relu_gradient"], lib, kernels);
  checkBuffers(in, lib);
  return lib;
}

void kerf::rt::checkOffers(const JsonReader &in,
                           const std::vector<LibraryDesc> &library) {
  std::set<int64_t> kernels, forwards;
  for (const LibraryDesc &desc : library) {
    auto at = static_cast<size_t>(desc.index);
    auto once = [&](std::set<int64_t> &known, int64_t value, const char *offer,
                    const char *key) {
      if (!known.insert(value).second)
        in["library"][at][offer][key].fail("is that of another call, too");
    };
    if (desc.biasGradient.offered())
      once(kernels, desc.biasGradient.kernel, "bias_gradient", "kernel");
    if (!desc.reluGradient.offered())
      continue;
    checkForward(in["library"][at]["relu_gradient"]["forward"], desc, library);
    once(kernels, desc.reluGradient.kernel, "relu_gradient", "kernel");
    once(forwards, desc.reluGradient.forward, "relu_gradient", "forward");
  }
}
