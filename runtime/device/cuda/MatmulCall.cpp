//===- MatmulCall.cpp - a matmul by cuBLASLt ------------------------------===//
//
// MatmulPlan says what to multiply; here it becomes cuBLASLt's descriptors. At
// first load the library's best guesses are timed on memory of the right size,
// and the fastest is kept in the cache by everything that the choice depends
// on.
//
//===----------------------------------------------------------------------===//
#include "MatmulCall.h"

#include "MatmulPlan.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

LtContext::LtContext(CudaDeviceBase &dev, bool allowTf32)
    : device(dev), tf32(allowTf32) {
  library.check(library.create(&handle), "cublasLtCreate");
  workspace = device.allocateTemporary(32 << 20, "the workspace of cuBLASLt");
  cache = std::make_unique<AlgorithmCache>(
      cat("cublaslt-", library.getVersion ? library.getVersion() : 0),
      device.gpuName());
  device.choosers().push_back(this);
}

std::string LtContext::prefix() const {
  return cat("cublaslt ", library.getVersion ? library.getVersion() : 0, " ");
}

std::map<std::string, std::string> LtContext::choices() const {
  std::map<std::string, std::string> mine;
  for (const TunedMatmul *call : tuned)
    mine[prefix() + call->algorithmKey()] = std::string(
        reinterpret_cast<const char *>(&call->algorithm()), sizeof(lt::Algo));
  return mine;
}

void LtContext::adopt(const std::map<std::string, std::string> &common) {
  for (TunedMatmul *call : tuned) {
    auto it = common.find(prefix() + call->algorithmKey());
    if (it == common.end() || it->second.size() != sizeof(lt::Algo) ||
        std::memcmp(it->second.data(), &call->algorithm(), sizeof(lt::Algo)) ==
            0)
      continue;
    lt::Algo algorithm;
    std::memcpy(&algorithm, it->second.data(), sizeof(algorithm));
    if (call->take(algorithm))
      cache->set(call->algorithmKey(), it->second);
  }
}

LtContext::~LtContext() {
  std::vector<MeasuredChoices *> &all = device.choosers();
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
  if (handle)
    library.destroy(handle);
}

double kerf::rt::measureMilliseconds(CudaDeviceBase &device,
                                     const std::function<bool()> &enqueue) {
  const Driver &cuda = device.driver();
  cu::Event begin = nullptr, end = nullptr;
  cuda.check(cuda.eventCreate(&begin, cu::EventDefault), "an event");
  cuda.check(cuda.eventCreate(&end, cu::EventDefault), "an event");
  double best = -1;
  bool good = enqueue(); // once to warm up
  for (int i = 0; i < 5 && good; ++i) {
    cuda.eventRecord(begin, device.computeStream());
    good = enqueue();
    cuda.eventRecord(end, device.computeStream());
    good =
        good && cuda.streamSynchronize(device.computeStream()) == cu::Success;
    float milliseconds = 0;
    if (good && cuda.eventElapsedTime(&milliseconds, begin, end) == cu::Success)
      best = best < 0 ? milliseconds
                      : std::min(best, static_cast<double>(milliseconds));
  }
  cuda.eventDestroy(begin);
  cuda.eventDestroy(end);
  return good ? best : -1;
}

namespace {
int typeOf(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F32:
    return lt::R32F;
  case KERF_F64:
    return lt::R64F;
  case KERF_F16:
    return lt::R16F;
  case KERF_BF16:
    return lt::R16BF;
  default:
    throw Error(KERF_BAD_PACKAGE,
                cat("cuBLASLt takes no ", kerf_dtype_name(dtype)));
  }
}

template <typename T, lt::Status (*CublasLt::*destroy)(T)> struct Owned {
  const CublasLt *library = nullptr;
  T handle = nullptr;
  Owned() = default;
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    if (handle)
      (library->*destroy)(handle);
  }
};
using Layout = Owned<lt::MatrixLayout, &CublasLt::matrixLayoutDestroy>;
using Desc = Owned<lt::MatmulDesc, &CublasLt::matmulDescDestroy>;
using Preference = Owned<lt::Preference, &CublasLt::preferenceDestroy>;

class MatmulCall : public LibraryCall, public TunedMatmul {
public:
  MatmulCall(LtContext &context, const LibraryDesc &given,
             const std::function<ParameterView(int64_t)> &parameter,
             std::unique_ptr<LibraryCall> kernel)
      : context(context), library(context.library), desc(given),
        plan(planMatmul(desc)), epilogue(std::move(kernel)) {
    empty = plan.m == 0 || plan.n == 0 || plan.batch == 0;
    for (const MatmulPlan::Loop &loop : plan.loops)
      empty = empty || loop.count == 0;
    if (empty)
      return;
    if (plan.k == 0)
      throw Error(KERF_BAD_PACKAGE, "k of a matmul is 0");
    for (const Operand *operand : {&desc.lhs, &desc.rhs, &desc.bias})
      if (operand->kind == Operand::Param)
        held[operand] = parameter(operand->index);
    if (plan.added && plan.added->kind == Operand::Param)
      held[plan.added] = parameter(plan.added->index);
    if (plan.aux && plan.aux->kind != Operand::Buffer)
      throw Error(KERF_BAD_PACKAGE, "gelu_tanh_gradient of a parameter");
    describe();
    // What the library asks of an auxiliary matrix (cublasLt.h).
    fused = plan.aux && plan.c.ld % 8 == 0 && plan.c.batchStride % 8 == 0;
    for (const MatmulPlan::Loop &loop : plan.loops)
      fused &= loop.c % 8 == 0;
    fused &= plan.aux && plan.aux->offset % 8 == 0;
    if (fused && !choose())
      fused = false;
    if (plan.aux && !fused) {
      ++context.separate;
      if (!epilogue)
        throw Error(KERF_UNSUPPORTED_HOST,
                    cat("cuBLASLt has no gelu_tanh_gradient for ", key,
                        ", and the package no kernel"));
    }
    if (!fused && !choose())
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("cuBLASLt has no algorithm for ", key));
    context.tuned.push_back(this);
  }
  ~MatmulCall() override {
    auto &all = context.tuned;
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }
  const std::string &algorithmKey() const override { return key; }
  const lt::Algo &algorithm() const override { return algo; }
  bool take(const lt::Algo &given) override {
    if (!usable(given))
      return false;
    algo = given;
    return true;
  }
  int64_t scratchBytes() const override { return 0; } // the context's

  void run(void *const *buffers, void *) override {
    if (empty)
      return;
    Pointers p;
    p.a = place(plan.lhsIsA ? desc.lhs : desc.rhs, desc.dtype, buffers);
    p.b = place(plan.lhsIsA ? desc.rhs : desc.lhs, desc.dtype, buffers);
    p.d = place(desc.dst, desc.dstDtype, buffers);
    const Operand *side = plan.added ? plan.added : plan.aux;
    p.c = side ? place(*side, desc.dstDtype, buffers) : p.d;
    if (plan.bias)
      setBias(place(desc.bias, desc.dstDtype, buffers));
    lt::Status status = enqueue(p, algo);
    if (status != lt::Success)
      library.check(status, "a matmul");
    if (plan.aux && !fused)
      epilogue->run(buffers, nullptr);
  }

private:
  struct Pointers {
    char *a, *b, *c, *d;
  };

  char *place(const Operand &operand, kerf_dtype_t dtype,
              void *const *buffers) const {
    const void *base = operand.kind == Operand::Param ? held.at(&operand).data
                                                      : buffers[operand.index];
    return static_cast<char *>(const_cast<void *>(base)) +
           operand.offset * dtypeSize(dtype);
  }

  void setLayout(Layout &layout, const LtMatrix &x, kerf_dtype_t dtype) {
    layout.library = &library;
    library.check(library.matrixLayoutCreate(&layout.handle, typeOf(dtype),
                                             static_cast<uint64_t>(x.rows),
                                             static_cast<uint64_t>(x.cols),
                                             x.ld),
                  "a layout");
    if (plan.batch > 1) {
      int32_t count = static_cast<int32_t>(plan.batch);
      library.check(library.matrixLayoutSetAttribute(layout.handle,
                                                     lt::LayoutBatchCount,
                                                     &count, sizeof(count)),
                    "a layout");
      library.check(library.matrixLayoutSetAttribute(
                        layout.handle, lt::LayoutStridedBatchOffset,
                        &x.batchStride, sizeof(x.batchStride)),
                    "a layout");
    }
  }

  void set(int attribute, const void *value, size_t bytes) {
    library.check(
        library.matmulDescSetAttribute(op.handle, attribute, value, bytes),
        "a description");
  }
  void setBias(const void *bias) {
    set(lt::DescBiasPointer, &bias, sizeof(bias));
  }

  void describe() {
    bool f64 = desc.dtype == KERF_F64;
    int compute = f64 ? lt::Compute64F
                  : desc.dtype == KERF_F32 && context.tf32
                      ? lt::Compute32FastTF32
                      : lt::Compute32F;
    op.library = &library;
    library.check(library.matmulDescCreate(&op.handle, compute,
                                           f64 ? lt::R64F : lt::R32F),
                  "a description");
    int32_t ta = plan.a.transposed ? lt::OpT : lt::OpN,
            tb = plan.b.transposed ? lt::OpT : lt::OpN;
    set(lt::DescTransA, &ta, sizeof(ta));
    set(lt::DescTransB, &tb, sizeof(tb));
    if (plan.bias) {
      int32_t type = typeOf(desc.dstDtype);
      set(lt::DescBiasDataType, &type, sizeof(type));
    }
    setLayout(a, plan.a, desc.dtype);
    setLayout(b, plan.b, desc.dtype);
    setLayout(c, plan.usesC() ? plan.c : plan.d, desc.dstDtype);
    setLayout(d, plan.d, desc.dstDtype);
  }

  /// The alignment of the bias counts, so that it must not be null.
  uint32_t biasAlignment() const {
    auto offset =
        static_cast<uint64_t>(desc.bias.offset * dtypeSize(desc.dstDtype)) | 16;
    return static_cast<uint32_t>(offset & (~offset + 1));
  }
  /// A place in memory that is aligned as the bias is, and no more.
  char *biasLike(void *memory) const {
    return static_cast<char *>(memory) + biasAlignment();
  }

  /// Everything that the best algorithm depends on is in the key.
  void setEpilogue() {
    int32_t value = plan.activation == MatmulPlan::Relu   ? lt::EpilogueRelu
                    : plan.activation == MatmulPlan::Gelu ? lt::EpilogueGelu
                    : fused                               ? lt::EpilogueDGelu
                    : plan.bias                           ? 0
                                                          : lt::EpilogueDefault;
    if (plan.bias)
      value |= lt::EpilogueBias;
    set(lt::DescEpilogue, &value, sizeof(value));
    if (plan.bias)
      setBias(biasLike(context.workspace->data));
    if (fused) {
      set(lt::DescAuxLd, &plan.c.ld, sizeof(plan.c.ld));
      set(lt::DescAuxBatchStride, &plan.c.batchStride,
          sizeof(plan.c.batchStride));
      setAux(context.workspace->data); // its alignment counts
    }
    key = cat(kerf_dtype_name(desc.dtype), ">", kerf_dtype_name(desc.dstDtype),
              context.tf32 ? " tf32" : "", " ", plan.m, "x", plan.n, "x",
              plan.k, " x", plan.batch, " e", value, plan.usesC() ? " c" : "",
              " al", alignment());
    if (plan.bias)
      key += cat(" b", biasAlignment());
    for (const LtMatrix *x : {&plan.a, &plan.b, &plan.c, &plan.d})
      key += cat(" ", x->ld, x->transposed ? "t" : "n", x->batchStride);
  }
  void setAux(const void *aux) { set(lt::DescAuxPointer, &aux, sizeof(aux)); }

  /// What all operands are aligned to, in bytes; bases are to 256.
  uint32_t alignment() const {
    uint64_t all = 256;
    auto add = [&](const Operand &operand, kerf_dtype_t dtype) {
      all |= static_cast<uint64_t>(operand.offset * dtypeSize(dtype));
    };
    add(desc.lhs, desc.dtype);
    add(desc.rhs, desc.dtype);
    add(desc.dst, desc.dstDtype);
    if (plan.added)
      add(*plan.added, desc.dstDtype);
    if (plan.aux)
      add(*plan.aux, desc.dstDtype);
    // Buffers of the arena are multiples of 64, views of others of 16.
    for (const MatmulPlan::Loop &loop : plan.loops)
      for (int64_t stride :
           {loop.a * dtypeSize(desc.dtype), loop.b * dtypeSize(desc.dtype),
            loop.c * dtypeSize(desc.dstDtype),
            loop.d * dtypeSize(desc.dstDtype)})
        all |= static_cast<uint64_t>(stride);
    uint64_t least = all & (~all + 1);
    return static_cast<uint32_t>(std::min<uint64_t>(least, 16));
  }

  lt::Status enqueue(const Pointers &p, const lt::Algo &algorithm) {
    return enqueueLoops(p, algorithm, 0);
  }
  lt::Status enqueueLoops(Pointers p, const lt::Algo &algorithm, size_t depth) {
    if (depth == plan.loops.size()) {
      double alpha64 = plan.alpha, beta64 = plan.usesC();
      float alpha = static_cast<float>(plan.alpha), beta = plan.usesC();
      bool f64 = desc.dtype == KERF_F64;
      if (fused)
        setAux(p.c);
      return library.matmul(context.handle, op.handle,
                            f64 ? static_cast<void *>(&alpha64) : &alpha, p.a,
                            a.handle, p.b, b.handle,
                            f64 ? static_cast<void *>(&beta64) : &beta,
                            plan.usesC() ? p.c : p.d, c.handle, p.d, d.handle,
                            &algorithm, context.workspace->data,
                            static_cast<size_t>(context.workspace->bytes),
                            context.device.computeStream());
    }
    const MatmulPlan::Loop &loop = plan.loops[depth];
    int64_t in = dtypeSize(desc.dtype), out = dtypeSize(desc.dstDtype);
    for (int64_t i = 0; i < loop.count; ++i) {
      lt::Status status =
          enqueueLoops({p.a + i * loop.a * in, p.b + i * loop.b * in,
                        p.c + i * loop.c * out, p.d + i * loop.d * out},
                       algorithm, depth + 1);
      if (status != lt::Success)
        return status;
    }
    return lt::Success;
  }

  bool usable(const lt::Algo &given) {
    if (plan.bias)
      setBias(biasLike(context.workspace->data));
    lt::HeuristicResult checked{};
    return library.algoCheck(context.handle, op.handle, a.handle, b.handle,
                             c.handle, d.handle, &given,
                             &checked) == lt::Success &&
           checked.workspaceSize <=
               static_cast<size_t>(context.workspace->bytes);
  }

  /// False: the library has no algorithm.
  bool choose() {
    setEpilogue();
    std::string bytes = context.cache->find(key);
    if (bytes.size() == sizeof(algo)) {
      std::memcpy(&algo, bytes.data(), sizeof(algo));
      if (usable(algo)) {
        ++context.known;
        return true;
      }
    }
    Preference preference;
    preference.library = &library;
    library.check(library.preferenceCreate(&preference.handle), "preferences");
    uint64_t workspace = static_cast<uint64_t>(context.workspace->bytes);
    uint32_t align = alignment();
    library.check(library.preferenceSetAttribute(preference.handle,
                                                 lt::PreferenceMaxWorkspace,
                                                 &workspace, sizeof(workspace)),
                  "preferences");
    for (int which : {lt::PreferenceMinAlignmentA, lt::PreferenceMinAlignmentB,
                      lt::PreferenceMinAlignmentC, lt::PreferenceMinAlignmentD})
      library.check(library.preferenceSetAttribute(preference.handle, which,
                                                   &align, sizeof(align)),
                    "preferences");
    constexpr int wanted = 8;
    lt::HeuristicResult results[wanted];
    int found = 0;
    lt::Status status = library.algoGetHeuristic(
        context.handle, op.handle, a.handle, b.handle, c.handle, d.handle,
        preference.handle, wanted, results, &found);
    if (status != lt::Success || found == 0)
      return false;
    algo = results[0].algo;
    if (found > 1)
      measure(results, found);
    context.cache->set(
        key, std::string(reinterpret_cast<char *>(&algo), sizeof(algo)));
    return true;
  }

  void measure(const lt::HeuristicResult *results, int found) {
    int64_t in = dtypeSize(desc.dtype), out = dtypeSize(desc.dstDtype);
    std::unique_ptr<DeviceMemory> memory[5];
    try {
      auto allocate = [&](int64_t bytes) {
        return context.device.allocateTemporary(bytes, "timing of a matmul");
      };
      memory[0] = allocate(extentOf(plan, plan.a, &MatmulPlan::Loop::a) * in);
      memory[1] = allocate(extentOf(plan, plan.b, &MatmulPlan::Loop::b) * in);
      memory[2] = allocate(extentOf(plan, plan.c, &MatmulPlan::Loop::c) * out);
      memory[3] = allocate(extentOf(plan, plan.d, &MatmulPlan::Loop::d) * out);
      memory[4] = allocate(plan.m * out + biasAlignment());
    } catch (const Error &) {
      return; // no room to measure: the library's first guess
    }
    Pointers p{static_cast<char *>(memory[0]->data),
               static_cast<char *>(memory[1]->data),
               static_cast<char *>(plan.added || plan.aux ? memory[2]->data
                                                          : memory[3]->data),
               static_cast<char *>(memory[3]->data)};
    if (plan.bias)
      setBias(biasLike(memory[4]->data));
    double best = -1;
    for (int i = 0; i < found; ++i) {
      if (results[i].state != lt::Success)
        continue;
      double time = measureMilliseconds(context.device, [&] {
        return enqueue(p, results[i].algo) == lt::Success;
      });
      if (time >= 0 && (best < 0 || time < best)) {
        best = time;
        algo = results[i].algo;
      }
    }
    ++context.measured;
  }

  LtContext &context;
  const CublasLt &library;
  LibraryDesc desc;
  MatmulPlan plan;
  std::unique_ptr<LibraryCall> epilogue;
  bool empty = false;
  bool fused = false; ///< the library reads plan.aux
  std::map<const Operand *, ParameterView> held;
  Desc op;
  Layout a, b, c, d;
  std::string key;
  lt::Algo algo{};
};
} // namespace

std::unique_ptr<LibraryCall>
kerf::rt::makeMatmulCall(LtContext &context, const LibraryDesc &desc,
                         const std::function<ParameterView(int64_t)> &parameter,
                         std::unique_ptr<LibraryCall> epilogue) {
  return std::make_unique<MatmulCall>(context, desc, parameter,
                                      std::move(epilogue));
}
