//===- OtherFrameworks.cpp - names of losses elsewhere --------------------===//
//
// See OtherFrameworks.h: PyTorch's, Keras's, optax's and common short names, in
// letters and digits alone.
//
//===----------------------------------------------------------------------===//
#include "OtherFrameworks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <string>

using namespace kerf::autodiff;
using llvm::StringLiteral;
using llvm::StringRef;

namespace {
struct Entry {
  StringLiteral name;
  Meant meant;
};

constexpr Meant kNone{""};
constexpr Meant kL1{"l1"}, kMSE{"mse"}, kNLL{"nll"},
    kCrossEntropy{"cross_entropy"}, kWithLogits{"bce_with_logits"},
    kOfLogits{"bce_with_logits", " (of what enters the sigmoid)"},
    kHuber{"huber"},
    kSmooth{"huber", " (with delta=1 it is smooth_l1 with beta=1)"};

constexpr Entry kLosses[] = {
    {"mae", kL1},
    {"absoluteerror", kL1},
    {"meanabsoluteerror", kL1},
    {"l2", kMSE},
    {"squarederror", kMSE},
    {"meansquarederror", kMSE},
    {"smoothl1", kSmooth},
    {"bce", kOfLogits},
    {"binarycrossentropy", kOfLogits},
    {"bcelogits", kWithLogits},
    {"binarycrossentropywithlogits", kWithLogits},
    {"sigmoidbinarycrossentropy", kWithLogits},
    {"sigmoidcrossentropy", kWithLogits},
    {"sigmoidcrossentropywithlogits", kWithLogits},
    {"negativeloglikelihood", kNLL},
    {"ce", kCrossEntropy},
    {"xent", kCrossEntropy},
    {"softmaxcrossentropy", kCrossEntropy},
    {"softmaxcrossentropywithlogits", kCrossEntropy},
    {"softmaxcrossentropywithintegerlabels", kCrossEntropy},
    {"categoricalcrossentropy", kCrossEntropy},
    {"sparsecategoricalcrossentropy", kCrossEntropy},
    // None of these is a slip.
    {"rmse", kNone},
    {"rootmeansquarederror", kNone},
    {"msle", kNone},
    {"mape", kNone},
    {"smape", kNone},
    {"kl", kNone},
    {"kld", kNone},
    {"kldiv", kNone},
    {"ctc", kNone},
    {"logcosh", kNone},
    {"poissonnll", kNone},
    {"gaussiannll", kNone},
    {"multimargin", kNone},
    {"softmargin", kNone},
};

constexpr Meant kSGD{"sgd"}, kMomentum{"momentum"}, kAdamW{"adamw"},
    kNesterov{"momentum", " (with nesterov=true)"};

constexpr Entry kOptimizers[] = {
    {"gd", kSGD},
    {"gradientdescent", kSGD},
    {"sgdm", kMomentum},
    {"sgdmomentum", kMomentum},
    {"sgdwithmomentum", kMomentum},
    {"heavyball", kMomentum},
    {"nag", kNesterov},
    {"nesterov", kNesterov},
    {"adamwtorch", kAdamW},
    {"adamwtorchfused", kAdamW},
    {"fusedadamw", kAdamW},
    {"fusedadam", {"adam"}},
    // None of these is a slip.
    {"adabelief", kNone},
    {"adabound", kNone},
    {"adadelta", kNone},
    {"adafactor", kNone},
    {"adahessian", kNone},
    {"adam8bit", kNone},
    {"adamax", kNone},
    {"adamp", kNone},
    {"adamw8bit", kNone},
    {"adan", kNone},
    {"amsgrad", kNone},
    {"asgd", kNone},
    {"lamb", kNone},
    {"lars", kNone},
    {"lion", kNone},
    {"muon", kNone},
    {"nadam", kNone},
    {"nadamw", kNone},
    {"prodigy", kNone},
    {"radam", kNone},
    {"rprop", kNone},
    {"sgdw", kNone},
    {"sgdp", kNone},
    {"sparseadam", kNone},
};

struct Option {
  StringLiteral name, ours;
};

constexpr Option kSameOptions[] = {
    {"learning_rate", "lr"},
    {"weight_decay", "wd"},
    {"epsilon", "eps"},
    {"beta_1", "beta1"},
    {"beta_2", "beta2"},
    {"b1", "beta1"},
    {"b2", "beta2"},
    {"rho", "alpha"},
    {"initial_accumulator_value", "initial"},
};

constexpr Option kNearOptions[] = {
    {"momentum", "beta1"},  {"beta1", "momentum"},
    {"beta2", "alpha"},     {"alpha", "beta2"},
    {"betas", "beta1"},     {"l2", "wd"},
    {"weightdecay", "wd"},  {"decay", "wd"},
    {"learningrate", "lr"}, {"exclude_from_wd", "no_decay"},
};

constexpr Option kNearLossOptions[] = {
    {"smoothing", "label_smoothing"},
    {"weights", "weight"},
    {"class_weight", "weight"},
    {"class_weights", "weight"},
    {"axis", "dim"},
    {"ignore_label", "ignore_index"},
    {"ignore", "ignore_index"},
};

std::string lettersOf(StringRef name) {
  std::string letters = name.lower();
  llvm::erase_if(letters, [](char c) { return !llvm::isAlnum(c); });
  return letters;
}

std::optional<Meant> lookUp(llvm::ArrayRef<Entry> entries, StringRef letters) {
  for (const Entry &entry : entries)
    if (entry.name == letters)
      return entry.meant;
  return std::nullopt;
}

StringRef lookUp(llvm::ArrayRef<Option> options, StringRef key,
                 StringRef otherwise) {
  for (const Option &option : options)
    if (option.name == key)
      return option.ours;
  return otherwise;
}
} // namespace

std::optional<Meant> kerf::autodiff::lossElsewhere(StringRef name) {
  std::string letters = lettersOf(name);
  StringRef plain = letters;
  plain.consume_back("loss");
  for (const Meant &ours :
       {kCrossEntropy, kNLL, kMSE, kL1, kWithLogits, kHuber})
    if (lettersOf(ours.name) == plain)
      return ours;
  return lookUp(kLosses, plain);
}

std::optional<Meant> kerf::autodiff::optimizerElsewhere(StringRef name) {
  return lookUp(kOptimizers, lettersOf(name));
}

StringRef kerf::autodiff::optimizerOptionOf(StringRef key) {
  return lookUp(kSameOptions, key, key);
}

StringRef kerf::autodiff::nearOptimizerOption(StringRef key) {
  return lookUp(kNearOptions, key, "");
}

StringRef kerf::autodiff::nearLossOption(StringRef key) {
  return lookUp(kNearLossOptions, key, "");
}
