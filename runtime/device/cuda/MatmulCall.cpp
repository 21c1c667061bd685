//===- MatmulCall.cpp - a matmul by cuBLASLt ------------------------------===//
//
// MatmulPlan says what to multiply, MatmulProduct how. A product may do more
// than it must: multiply by a slope, for which the package has a kernel, or
// write sums that a kernel of the program computes. The first is done where the
// library can, the second where it is not slower, either: what both forms of
// the product take is measured, what the kernel takes is estimated from the
// bytes that it moves.
//
//===----------------------------------------------------------------------===//
#include "MatmulCall.h"

#include "MatmulProduct.h"

#include <algorithm>
#include <cstdlib>

using namespace kerf::rt;

static bool wantsEpilogues() {
  const char *given = std::getenv("KERF_CUDA_EPILOGUES");
  return !given || std::string(given) != "0";
}

LtContext::LtContext(CudaDeviceBase &dev, bool allowTf32)
    : device(dev), tf32(allowTf32), epilogues(wantsEpilogues()) {
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
    mine[prefix() + call->choiceKey()] = call->choice();
  return mine;
}

void LtContext::adopt(const std::map<std::string, std::string> &common) {
  for (TunedMatmul *call : tuned) {
    auto it = common.find(prefix() + call->choiceKey());
    if (it != common.end() && it->second != call->choice() &&
        call->take(it->second))
      cache->set(call->choiceKey(), it->second);
  }
}

LtContext::~LtContext() {
  std::vector<MeasuredChoices *> &all = device.choosers();
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
  if (handle)
    library.destroy(handle);
}

namespace {
/// A product that also writes sums, and whether it is taken. Its choice is "-",
/// or "+" and the algorithm.
class OfferedSums : public TunedMatmul {
public:
  OfferedSums(LtContext &context, const LibraryDesc &desc,
              const MatmulPlan &plan, MatmulProduct &plain)
      : product(context, desc, plan, MatmulProduct::Sums), context(context),
        desc(desc) {
    key =
        cat(product.choiceKey(), " instead of ", desc.biasGradient.kernelBytes,
            " bytes in ", desc.biasGradient.rows, " rows");
    if (take(context.cache->find(key)))
      return;
    bool good = MatmulProduct::mayHave(desc, plan, MatmulProduct::Sums) &&
                product.choose();
    if (good) {
      double without = plain.milliseconds(), with = product.milliseconds(),
             rate = context.device.memoryBytesPerSecond(), kernel = 0;
      if (rate > 0)
        kernel =
            static_cast<double>(desc.biasGradient.kernelBytes) / rate * 1e3;
      good = without >= 0 && with >= 0 && with <= without + kernel;
    }
    use(good);
    context.cache->set(key, choice());
  }
  ~OfferedSums() override { use(false); }

  const std::string &choiceKey() const override { return key; }
  std::string choice() const override {
    return used ? "+" + product.choice() : "-";
  }
  bool take(const std::string &choice) override {
    bool wanted = !choice.empty() && choice[0] == '+';
    if (!(wanted ? product.take(choice.substr(1)) : choice == "-"))
      return false;
    use(wanted);
    return true;
  }

  /// Zeros are left out where time is measured: to launch them takes what it
  /// takes to launch the kernel, which is not in its estimate.
  lt::Status enqueue(const MatmulProduct::Pointers &p) {
    int64_t row = desc.biasGradient.columns(desc) * dtypeSize(desc.dstDtype);
    context.device.zeroOn(static_cast<char *>(p.bias) + row,
                          (desc.biasGradient.rows - 1) * row,
                          context.device.computeStream());
    return product.enqueue(p);
  }

  MatmulProduct product;
  bool used = false;

private:
  void use(bool wanted) {
    if (wanted != used)
      context.sums += wanted ? 1 : -1;
    used = wanted;
    context.device.replaceKernel(desc.biasGradient.kernel, used);
  }

  LtContext &context;
  const LibraryDesc &desc;
  std::string key;
};

class MatmulCall : public LibraryCall {
public:
  MatmulCall(LtContext &context, const LibraryDesc &given,
             const std::function<ParameterView(int64_t)> &parameter,
             std::unique_ptr<LibraryCall> kernel)
      : context(context), desc(given), plan(planMatmul(desc)) {
    bool empty = plan.m == 0 || plan.n == 0 || plan.batch == 0;
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
    makeProduct(std::move(kernel));
    context.tuned.push_back(product.get());
    if (desc.biasGradient.offered() && context.epilogues) {
      ++context.offered;
      sums = std::make_unique<OfferedSums>(context, desc, plan, *product);
      context.tuned.push_back(sums.get());
    }
  }
  ~MatmulCall() override {
    auto &all = context.tuned;
    for (TunedMatmul *mine : {static_cast<TunedMatmul *>(product.get()),
                              static_cast<TunedMatmul *>(sums.get())})
      all.erase(std::remove(all.begin(), all.end(), mine), all.end());
  }
  int64_t scratchBytes() const override { return 0; } // the context's

  void run(void *const *buffers, void *) override {
    if (!product)
      return;
    MatmulProduct::Pointers p{};
    p.a = place(plan.lhsIsA ? desc.lhs : desc.rhs, desc.dtype, buffers);
    p.b = place(plan.lhsIsA ? desc.rhs : desc.lhs, desc.dtype, buffers);
    p.d = place(desc.dst, desc.dstDtype, buffers);
    const Operand *side = plan.added ? plan.added : plan.aux;
    p.c = side ? place(*side, desc.dstDtype, buffers) : p.d;
    bool both = sums && sums->used;
    if (plan.bias)
      p.bias = place(desc.bias, desc.dstDtype, buffers);
    if (both)
      p.bias = place(desc.biasGradient.sums, desc.dstDtype, buffers);
    lt::Status status = both ? sums->enqueue(p) : product->enqueue(p);
    if (status != lt::Success)
      context.library.check(status, "a matmul");
    if (epilogue)
      epilogue->run(buffers, nullptr);
  }

private:
  void makeProduct(std::unique_ptr<LibraryCall> kernel) {
    auto make = [&](MatmulProduct::Beside beside) {
      product = std::make_unique<MatmulProduct>(context, desc, plan, beside);
      return product->choose();
    };
    if (plan.aux && context.epilogues &&
        MatmulProduct::mayHave(desc, plan, MatmulProduct::Slope) &&
        make(MatmulProduct::Slope))
      return;
    bool good = make(MatmulProduct::Nothing);
    if (plan.aux) {
      context.separate += context.epilogues;
      if (!kernel)
        throw Error(KERF_UNSUPPORTED_HOST,
                    cat("cuBLASLt has no gelu_tanh_gradient for ",
                        product->choiceKey(), ", and the package no kernel"));
      epilogue = std::move(kernel);
    }
    if (!good)
      throw Error(KERF_UNSUPPORTED_HOST,
                  cat("cuBLASLt has no algorithm for ", product->choiceKey()));
  }

  char *place(const Operand &operand, kerf_dtype_t dtype,
              void *const *buffers) const {
    const void *base = operand.kind == Operand::Param ? held.at(&operand).data
                                                      : buffers[operand.index];
    return static_cast<char *>(const_cast<void *>(base)) +
           operand.offset * dtypeSize(dtype);
  }

  LtContext &context;
  LibraryDesc desc;
  MatmulPlan plan;
  std::map<const Operand *, ParameterView> held;
  std::unique_ptr<MatmulProduct> product; ///< null: there is nothing to do
  std::unique_ptr<OfferedSums> sums;
  std::unique_ptr<LibraryCall> epilogue; ///< what the product leaves undone
};
} // namespace

std::unique_ptr<LibraryCall>
kerf::rt::makeMatmulCall(LtContext &context, const LibraryDesc &desc,
                         const std::function<ParameterView(int64_t)> &parameter,
                         std::unique_ptr<LibraryCall> epilogue) {
  return std::make_unique<MatmulCall>(context, desc, parameter,
                                      std::move(epilogue));
}
