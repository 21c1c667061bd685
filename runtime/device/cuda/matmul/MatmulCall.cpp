//===- MatmulCall.cpp - a matmul by cuBLASLt ------------------------------===//
//
// MatmulPlan says what to multiply, MatmulProduct how. A product may do more
// than it must: multiply by a slope, for which the package has a kernel, or
// write sums that a kernel of the program computes. The slope is fused whenever
// the library can; the sums only if that is not slower: both forms of the
// product are timed, and the kernel's time is estimated from the bytes that it
// moves.
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
/// Products that also do a kernel's work, and whether that form is chosen. The
/// choice is "-", or "+" and their algorithms.
class Offered : public TunedMatmul {
public:
  struct Form {
    MatmulProduct *plain;
    std::unique_ptr<MatmulProduct> other;
  };
  Offered(LtContext &context, int64_t kernel)
      : context(context), kernel(kernel) {}
  ~Offered() override { use(false); }

  /// `possible`: as far as the library's documents say.
  void decide(std::vector<Form> all, bool possible, int64_t kernelBytes) {
    forms = std::move(all);
    for (const Form &form : forms)
      key += form.other->choiceKey() + " and ";
    key += cat(kernelBytes, " bytes less");
    ++context.offered;
    if (take(context.cache->find(key)))
      return;
    for (const Form &form : forms)
      possible = possible && form.other->choose();
    use(possible && pays(kernelBytes) && makeReady());
    context.cache->set(key, choice());
  }

  const std::string &choiceKey() const override { return key; }
  std::string choice() const override {
    std::string text = used ? "+" : "-";
    for (const Form &form : forms)
      text += used ? form.other->choice() : "";
    return text;
  }
  bool take(const std::string &choice) override {
    if (choice == "-") {
      use(false);
      return true;
    }
    if (choice.size() != 1 + forms.size() * sizeof(lt::Algo) ||
        choice[0] != '+')
      return false;
    size_t at = 1;
    for (const Form &form : forms) {
      if (!form.other->take(choice.substr(at, sizeof(lt::Algo))))
        return false;
      at += sizeof(lt::Algo);
    }
    if (!makeReady())
      return false;
    use(true);
    return true;
  }

  std::vector<Form> forms;
  bool used = false;

protected:
  /// Before it is taken; false: it cannot be.
  virtual bool makeReady() { return true; }
  LtContext &context;

private:
  bool pays(int64_t kernelBytes) const {
    double difference = 0, rate = context.device.memoryBytesPerSecond();
    for (const Form &form : forms) {
      double without = form.plain->milliseconds(),
             with = form.other->milliseconds();
      if (without < 0 || with < 0)
        return false;
      difference += with - without;
    }
    return difference <=
           (rate > 0 ? static_cast<double>(kernelBytes) / rate * 1e3 : 0);
  }
  void use(bool wanted) {
    if (wanted != used)
      context.taken += wanted ? 1 : -1;
    used = wanted;
    context.device.replaceKernel(kernel, used);
  }

  int64_t kernel;
  std::string key;
};

/// Bits that one product writes and another reads; they have memory of their
/// own.
class OfferedBits : public Offered {
public:
  OfferedBits(LtContext &context, int64_t kernel, int64_t bytes)
      : Offered(context, kernel), bytes(bytes) {}
  void *bits() const { return memory->data; }

private:
  bool makeReady() override {
    try {
      if (!memory)
        memory = context.device.allocateTemporary(bytes, "bits of a ReLU");
    } catch (const Error &) {
      return false;
    }
    return true;
  }
  int64_t bytes;
  std::unique_ptr<DeviceMemory> memory;
};
} // namespace

namespace kerf::rt {
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
    context.calls[desc.index] = this;
    if (!context.epilogues)
      return;
    if (desc.biasGradient.offered())
      considerSums();
    if (desc.reluGradient.offered())
      considerBits();
  }
  ~MatmulCall() override {
    auto &all = context.tuned;
    for (TunedMatmul *mine : {static_cast<TunedMatmul *>(product.get()),
                              static_cast<TunedMatmul *>(sums.get()),
                              static_cast<TunedMatmul *>(masked.get())})
      all.erase(std::remove(all.begin(), all.end(), mine), all.end());
    if (auto it = context.calls.find(desc.index);
        it != context.calls.end() && it->second == this)
      context.calls.erase(it);
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
    if (plan.bias)
      p.bias = place(desc.bias, desc.dstDtype, buffers);
    lt::Status status = formFor(p, buffers).enqueue(p);
    if (status != lt::Success)
      context.library.check(status, "a matmul");
    if (epilogue)
      epilogue->run(buffers, nullptr);
  }

private:
  /// The form that runs, with its additional operand bound.
  MatmulProduct &formFor(MatmulProduct::Pointers &p, void *const *buffers) {
    if (sums && sums->used) {
      p.bias = place(desc.biasGradient.sums, desc.dstDtype, buffers);
      int64_t row = desc.biasGradient.columns(desc) * dtypeSize(desc.dstDtype);
      context.device.zeroOn(static_cast<char *>(p.bias) + row,
                            (desc.biasGradient.rows - 1) * row,
                            context.device.computeStream());
      return *sums->forms[0].other;
    }
    for (size_t i : {0, 1})
      if (const auto &offer = i == 0 ? masking : masked; offer && offer->used) {
        p.bits = offer->bits();
        return *offer->forms[i].other;
      }
    return *product;
  }

  std::unique_ptr<MatmulProduct> make(MatmulProduct::Beside beside) {
    return std::make_unique<MatmulProduct>(context, desc, plan, beside);
  }

  void makeProduct(std::unique_ptr<LibraryCall> kernel) {
    if (plan.aux && context.epilogues &&
        MatmulProduct::mayHave(desc, plan, MatmulProduct::Slope)) {
      product = make(MatmulProduct::Slope);
      if (product->choose())
        return;
    }
    product = make(MatmulProduct::Nothing);
    bool good = product->choose();
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

  /// Launching the zeros is not timed: it takes as long as launching the
  /// kernel, which its estimate leaves out as well.
  void considerSums() {
    const BiasGradient &gradient = desc.biasGradient;
    sums = std::make_unique<Offered>(context, gradient.kernel);
    std::vector<Offered::Form> forms;
    forms.push_back({product.get(), make(MatmulProduct::Sums)});
    sums->decide(std::move(forms),
                 MatmulProduct::mayHave(desc, plan, MatmulProduct::Sums),
                 gradient.kernelBytes);
    context.tuned.push_back(sums.get());
  }

  void considerBits() {
    const ReluGradient &gradient = desc.reluGradient;
    auto found = context.calls.find(gradient.forward);
    if (found == context.calls.end())
      return; // of another stage
    MatmulCall &relu = *found->second;
    masked = std::make_shared<OfferedBits>(context, gradient.kernel,
                                           MatmulProduct::bytesOfBits(plan));
    std::vector<Offered::Form> forms;
    forms.push_back({relu.product.get(), relu.make(MatmulProduct::Bits)});
    forms.push_back({product.get(), make(MatmulProduct::Masked)});
    masked->decide(
        std::move(forms),
        relu.plan.m == plan.m && relu.plan.n == plan.n &&
            MatmulProduct::mayHave(relu.desc, relu.plan, MatmulProduct::Bits) &&
            MatmulProduct::mayHave(desc, plan, MatmulProduct::Masked),
        gradient.kernelBytes);
    relu.masking = masked;
    context.tuned.push_back(masked.get());
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
  std::unique_ptr<Offered> sums;
  /// With the later call that is masked, and with the earlier one that masks.
  std::shared_ptr<OfferedBits> masking, masked;
  std::unique_ptr<LibraryCall> epilogue; ///< what the product leaves undone
};
} // namespace kerf::rt

std::unique_ptr<LibraryCall>
kerf::rt::makeMatmulCall(LtContext &context, const LibraryDesc &desc,
                         const std::function<ParameterView(int64_t)> &parameter,
                         std::unique_ptr<LibraryCall> epilogue) {
  return std::make_unique<MatmulCall>(context, desc, parameter,
                                      std::move(epilogue));
}
