//===- MatmulProduct.cpp - a product with an epilogue, chosen -------------===//
#include "MatmulProduct.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

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

static int typeOf(kerf_dtype_t dtype) {
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

/// Whether the operand whose sums are wanted is cuBLASLt's A.
static bool sumsOfA(const LibraryDesc &desc, const MatmulPlan &plan) {
  return desc.biasGradient.ofRhs != plan.lhsIsA;
}

bool MatmulProduct::mayHave(const LibraryDesc &desc, const MatmulPlan &plan,
                            Beside beside) {
  if (beside == Slope) {
    bool good = plan.aux && plan.c.ld % 8 == 0 && plan.c.batchStride % 8 == 0;
    for (const MatmulPlan::Loop &loop : plan.loops)
      good &= loop.c % 8 == 0;
    return good && plan.aux->offset % 8 == 0;
  }
  if (beside == Nothing)
    return true;
  if (plan.batch != 1 || !plan.loops.empty())
    return false;
  if (beside == Bits)
    return plan.activation == MatmulPlan::Relu;
  if (beside == Masked)
    return plan.activation == MatmulPlan::None && !plan.bias;
  // BGRADA takes an A, BGRADB a B whose rows lie side by side.
  return sumsOfA(desc, plan) ? !plan.a.transposed : plan.b.transposed;
}

MatmulProduct::MatmulProduct(LtContext &context, const LibraryDesc &desc,
                             const MatmulPlan &plan, Beside beside)
    : context(context), library(context.library), desc(desc), plan(plan),
      beside(beside) {
  describe();
  setEpilogue();
}

void MatmulProduct::setLayout(Layout &layout, const LtMatrix &x,
                              kerf_dtype_t dtype) {
  layout.library = &library;
  library.check(library.matrixLayoutCreate(&layout.handle, typeOf(dtype),
                                           static_cast<uint64_t>(x.rows),
                                           static_cast<uint64_t>(x.cols), x.ld),
                "a layout");
  if (plan.batch > 1) {
    int32_t count = static_cast<int32_t>(plan.batch);
    library.check(library.matrixLayoutSetAttribute(layout.handle,
                                                   lt::LayoutBatchCount, &count,
                                                   sizeof(count)),
                  "a layout");
    library.check(library.matrixLayoutSetAttribute(
                      layout.handle, lt::LayoutStridedBatchOffset,
                      &x.batchStride, sizeof(x.batchStride)),
                  "a layout");
  }
}

void MatmulProduct::set(int attribute, const void *value, size_t bytes) {
  library.check(
      library.matmulDescSetAttribute(op.handle, attribute, value, bytes),
      "a description");
}

void MatmulProduct::describe() {
  bool f64 = desc.dtype == KERF_F64;
  int compute = f64                                      ? lt::Compute64F
                : desc.dtype == KERF_F32 && context.tf32 ? lt::Compute32FastTF32
                                                         : lt::Compute32F;
  op.library = &library;
  library.check(
      library.matmulDescCreate(&op.handle, compute, f64 ? lt::R64F : lt::R32F),
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

/// The library checks the alignment of the bias pointer, so it must not be
/// null: it is set to an address that has just the alignment of the bias.
uint32_t MatmulProduct::biasAlignment() const {
  const Operand &bias = beside == Sums ? desc.biasGradient.sums : desc.bias;
  auto offset =
      static_cast<uint64_t>(bias.offset * dtypeSize(desc.dstDtype)) | 16;
  return static_cast<uint32_t>(offset & (~offset + 1));
}

int32_t MatmulProduct::epilogue() const {
  if (beside == Slope)
    return lt::EpilogueDGelu;
  if (beside == Sums)
    return sumsOfA(desc, plan) ? lt::EpilogueBiasGradientA
                               : lt::EpilogueBiasGradientB;
  if (beside == Masked)
    return lt::EpilogueDRelu;
  int32_t activation = plan.activation == MatmulPlan::Relu   ? lt::EpilogueRelu
                       : plan.activation == MatmulPlan::Gelu ? lt::EpilogueGelu
                                                             : 0;
  if (plan.bias)
    activation |= lt::EpilogueBias;
  if (beside == Bits)
    activation |= lt::EpilogueAux;
  return activation ? activation : lt::EpilogueDefault;
}

/// Everything that the best algorithm depends on is in the key.
void MatmulProduct::setEpilogue() {
  int32_t value = epilogue();
  set(lt::DescEpilogue, &value, sizeof(value));
  if (usesBias())
    setBias(biasLike(context.workspace->data));
  if (beside == Slope) {
    set(lt::DescAuxLd, &plan.c.ld, sizeof(plan.c.ld));
    set(lt::DescAuxBatchStride, &plan.c.batchStride,
        sizeof(plan.c.batchStride));
    setAux(context.workspace->data); // its alignment counts
  }
  if (usesBits()) {
    int64_t ld = bitsPerColumn(plan);
    set(lt::DescAuxLd, &ld, sizeof(ld));
    setAux(context.workspace->data);
  }
  key = cat(kerf_dtype_name(desc.dtype), ">", kerf_dtype_name(desc.dstDtype),
            context.tf32 ? " tf32" : "", " ", plan.m, "x", plan.n, "x", plan.k,
            " x", plan.batch, " e", value, plan.usesC() ? " c" : "", " al",
            alignment());
  if (usesBias())
    key += cat(" b", biasAlignment());
  for (const LtMatrix *x : {&plan.a, &plan.b, &plan.c, &plan.d})
    key += cat(" ", x->ld, x->transposed ? "t" : "n", x->batchStride);
}

/// What all operands are aligned to, in bytes; bases are to 256.
uint32_t MatmulProduct::alignment() const {
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
          loop.c * dtypeSize(desc.dstDtype), loop.d * dtypeSize(desc.dstDtype)})
      all |= static_cast<uint64_t>(stride);
  uint64_t min = all & (~all + 1);
  return static_cast<uint32_t>(std::min<uint64_t>(min, 16));
}

lt::Status MatmulProduct::enqueue(const Pointers &p) {
  return enqueue(p, algo);
}

lt::Status MatmulProduct::enqueue(const Pointers &p,
                                  const lt::Algo &algorithm) {
  if (usesBias())
    setBias(p.bias);
  if (usesBits())
    setAux(p.bits);
  return enqueueLoops(p, algorithm, 0);
}

lt::Status MatmulProduct::enqueueLoops(Pointers p, const lt::Algo &algorithm,
                                       size_t depth) {
  if (depth == plan.loops.size()) {
    double alpha64 = plan.alpha, beta64 = plan.usesC();
    float alpha = static_cast<float>(plan.alpha), beta = plan.usesC();
    bool f64 = desc.dtype == KERF_F64;
    if (beside == Slope)
      setAux(p.c);
    return library.matmul(
        context.handle, op.handle, f64 ? static_cast<void *>(&alpha64) : &alpha,
        p.a, a.handle, p.b, b.handle,
        f64 ? static_cast<void *>(&beta64) : &beta, plan.usesC() ? p.c : p.d,
        c.handle, p.d, d.handle, &algorithm, context.workspace->data,
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

bool MatmulProduct::usable(const lt::Algo &given) {
  if (usesBias())
    setBias(biasLike(context.workspace->data));
  lt::HeuristicResult checked{};
  return library.algoCheck(context.handle, op.handle, a.handle, b.handle,
                           c.handle, d.handle, &given,
                           &checked) == lt::Success &&
         checked.workspaceSize <= static_cast<size_t>(context.workspace->bytes);
}

bool MatmulProduct::take(const std::string &choice) {
  lt::Algo given;
  if (choice.size() != sizeof(given))
    return false;
  std::memcpy(&given, choice.data(), sizeof(given));
  if (!usable(given))
    return false;
  algo = given;
  return true;
}

bool MatmulProduct::choose() {
  if (take(context.cache->find(key))) {
    ++context.known;
    return true;
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
  if (usesBias())
    setBias(biasLike(context.workspace->data));
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
  context.cache->set(key, choice());
  return true;
}

bool MatmulProduct::allocate(Memory &memory) {
  int64_t in = dtypeSize(desc.dtype), out = dtypeSize(desc.dstDtype);
  int64_t side = beside == Sums ? desc.biasGradient.columns(desc) : plan.m;
  int64_t bytes[] = {extentOf(plan, plan.a, &MatmulPlan::Loop::a) * in,
                     extentOf(plan, plan.b, &MatmulPlan::Loop::b) * in,
                     extentOf(plan, plan.c, &MatmulPlan::Loop::c) * out,
                     extentOf(plan, plan.d, &MatmulPlan::Loop::d) * out,
                     side * out + biasAlignment(),
                     usesBits() ? bytesOfBits(plan) : 0};
  try {
    for (int i = 0; i < 6; ++i)
      memory.parts[i] =
          context.device.allocateTemporary(bytes[i], "timing of a matmul");
  } catch (const Error &) {
    return false;
  }
  auto at = [&](int i) { return static_cast<char *>(memory.parts[i]->data); };
  memory.pointers = {
      at(0), at(1),           plan.added || plan.aux ? at(2) : at(3),
      at(3), biasLike(at(4)), at(5)};
  return true;
}

void MatmulProduct::measure(const lt::HeuristicResult *results, int found) {
  Memory memory;
  if (!allocate(memory))
    return; // no room to measure: the library's first guess
  double best = -1;
  for (int i = 0; i < found; ++i) {
    if (results[i].state != lt::Success)
      continue;
    double time = measureMilliseconds(context.device, [&] {
      return enqueue(memory.pointers, results[i].algo) == lt::Success;
    });
    if (time >= 0 && (best < 0 || time < best)) {
      best = time;
      algo = results[i].algo;
    }
  }
  ++context.measured;
}

double MatmulProduct::milliseconds() {
  Memory memory;
  if (!allocate(memory))
    return -1;
  return measureMilliseconds(
      context.device, [&] { return enqueue(memory.pointers) == lt::Success; });
}
