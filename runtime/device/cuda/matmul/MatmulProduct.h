//===- MatmulProduct.h - a product with an epilogue, chosen -----*- C++ -*-===//
//
// cuBLASLt's descriptors for a plan (MatmulPlan.h) with one epilogue, and the
// choice of an algorithm: at first load the library's best guesses are timed on
// memory of the right size, and the fastest is kept in the cache under
// everything that the choice depends on.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPRODUCT_H
#define KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPRODUCT_H

#include "MatmulCall.h"
#include "MatmulPlan.h"

namespace kerf::rt {

template <typename T, lt::Status (*CublasLt::*destroy)(T)> struct LtOwned {
  const CublasLt *library = nullptr;
  T handle = nullptr;
  LtOwned() = default;
  LtOwned(const LtOwned &) = delete;
  LtOwned &operator=(const LtOwned &) = delete;
  ~LtOwned() {
    if (handle)
      (library->*destroy)(handle);
  }
};

class MatmulProduct : public TunedMatmul {
public:
  /// An epilogue besides the one that the plan always has.
  enum Beside {
    Nothing,
    Slope, ///< times the slope of GELU at plan.aux
    Sums,  ///< sums over k of an operand are written, too (bias_gradient)
    Bits,  ///< behind ReLU: which elements are positive is written, too
    Masked ///< kept where such bits are set, else 0 (relu_gradient)
  };
  /// `desc` and `plan` outlive the product.
  MatmulProduct(LtContext &context, const LibraryDesc &desc,
                const MatmulPlan &plan, Beside beside);

  /// The documented requirements on operands; the library checks the others.
  static bool mayHave(const LibraryDesc &desc, const MatmulPlan &plan,
                      Beside beside);
  /// Chooses an algorithm; false if the library has none.
  bool choose();
  /// The time of the chosen algorithm, measured on temporary memory; negative
  /// if that cannot be allocated or a launch fails.
  double milliseconds();

  struct Pointers {
    char *a, *b, *c, *d;
    void *bias = nullptr; ///< or where sums go
    void *bits = nullptr;
  };
  lt::Status enqueue(const Pointers &pointers);

  /// Bits have columns of a multiple of 128.
  static int64_t bitsPerColumn(const MatmulPlan &plan) {
    return (plan.m + 127) / 128 * 128;
  }
  static int64_t bytesOfBits(const MatmulPlan &plan) {
    return bitsPerColumn(plan) / 8 * plan.n;
  }

  const std::string &choiceKey() const override { return key; }
  std::string choice() const override {
    return {reinterpret_cast<const char *>(&algo), sizeof(algo)};
  }
  bool take(const std::string &choice) override;

private:
  using Layout = LtOwned<lt::MatrixLayout, &CublasLt::matrixLayoutDestroy>;
  using Desc = LtOwned<lt::MatmulDesc, &CublasLt::matmulDescDestroy>;
  using Preference = LtOwned<lt::Preference, &CublasLt::preferenceDestroy>;
  struct Memory {
    std::unique_ptr<DeviceMemory> parts[6];
    Pointers pointers{};
  };

  void describe();
  void setLayout(Layout &layout, const LtMatrix &x, kerf_dtype_t dtype);
  void set(int attribute, const void *value, size_t bytes);
  void setBias(const void *bias) {
    set(lt::DescBiasPointer, &bias, sizeof(bias));
  }
  void setAux(const void *aux) { set(lt::DescAuxPointer, &aux, sizeof(aux)); }
  void setEpilogue();
  int32_t epilogue() const;
  bool usesBias() const { return plan.bias || beside == Sums; }
  bool usesBits() const { return beside == Bits || beside == Masked; }
  uint32_t biasAlignment() const;
  char *biasLike(void *memory) const {
    return static_cast<char *>(memory) + biasAlignment();
  }
  uint32_t alignment() const;
  lt::Status enqueue(const Pointers &p, const lt::Algo &algorithm);
  lt::Status enqueueLoops(Pointers p, const lt::Algo &algorithm, size_t depth);
  bool usable(const lt::Algo &given);
  bool allocate(Memory &memory);
  void measure(const lt::HeuristicResult *results, int found);

  LtContext &context;
  const CublasLt &library;
  const LibraryDesc &desc;
  const MatmulPlan &plan;
  Beside beside;
  Desc op;
  Layout a, b, c, d;
  std::string key;
  lt::Algo algo{};
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_DEVICE_CUDA_MATMUL_MATMULPRODUCT_H
