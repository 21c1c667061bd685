//===- CompilationNotes.cpp - what a compilation says beside errors -------===//
//
// A file can hold another model than its author trains: copies, numbers taken
// for constants, norms that a tool has folded away. Each is noted.
//
//===----------------------------------------------------------------------===//
#include "kerf/Pipelines/Compilation.h"

#include "kerf/Interfaces/OtherNames.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace kerf;
using llvm::Twine;

/// A hint of planning whose pattern matches nothing may have a name that its
/// weight is not stored under.
void Compilation::noteOtherName(std::string &message) {
  for (const plan::ShardHint &hint : options.plan.hints) {
    std::string start =
        "option shard: no value is named '" + hint.pattern + "'";
    std::string stored = storedAs(otherNames(module.get()), hint.pattern);
    if (!stored.empty() && llvm::StringRef(message).starts_with(start))
      message = start + ": " + stored;
  }
}

std::string Compilation::noteOnOutput() const {
  return llvm::is_contained(outputs, options.explain)
             ? "\nnote: the model has an output '" + options.explain +
                   "', but the loss does not need it: a training step does "
                   "not compute it"
             : "";
}

/// Notes copies of weights: exporters store equal tensors once, and training
/// changes each copy by itself.
void Compilation::noteUntied() {
  constexpr size_t kMax = 4;
  std::set<std::string> names;
  for (const autodiff::TrainedParameter &parameter : trained.trained) {
    names.insert(parameter.name);
    // "w@0,64" is a part of w.
    names.insert(parameter.name.substr(0, parameter.name.rfind('@')));
  }
  llvm::MapVector<llvm::StringRef, std::set<llvm::StringRef>> counts;
  for (const UntiedCopy &copy : report.untied) // several nodes may read one
    if (names.count(copy.name) && names.count(copy.original))
      counts[copy.original].insert(copy.name);
  if (counts.empty())
    return;
  std::vector<std::string> texts;
  for (const auto &[name, copies] : counts)
    if (texts.size() < kMax)
      texts.push_back(
          ("\"" + name + "\" (" + Twine(copies.size() + 1) + " parameters)")
              .str());
  trainingNotes.push_back(
      "stored once and read by several nodes, trained for each by itself: " +
      llvm::join(texts, ", ") +
      (counts.size() > kMax
           ? " and " + std::to_string(counts.size() - kMax) + " more"
           : "") +
      "; option tied=NAME trains one as one, as a module that is applied "
      "several times");
}

/// Notes numbers without dimensions: import takes them for constants, but some
/// may be learned. Those that folding has taken along (a factor of 1) may be,
/// too.
void Compilation::noteNumbers() {
  std::vector<std::string> names;
  for (const std::string &name : report.numbers)
    if (!autodiff::isNamedAsConstant(name) &&
        !llvm::is_contained(trained.idleNumbers, name))
      names.push_back("\"" + name + "\"");
  if (!names.empty())
    trainingNotes.push_back("numbers without dimensions are not trained: " +
                            llvm::join(names, ", ") +
                            "; option trainable=+NAME trains one");
}

/// Notes parameters that the exporter left out: PyTorch trains them.
void Compilation::noteLeftOut() {
  constexpr size_t kMax = 4;
  const std::vector<std::string> &names = report.leftOut;
  if (names.empty())
    return;
  std::vector<std::string> texts;
  for (const std::string &name :
       llvm::ArrayRef(names).take_front(std::min(names.size(), kMax)))
    texts.push_back("\"" + name + "\"");
  trainingNotes.push_back(
      "not in the file, so not trained as PyTorch trains them: " +
      llvm::join(texts, ", ") +
      (names.size() > kMax
           ? " and " + std::to_string(names.size() - kMax) + " more"
           : "") +
      " (the exporter leaves out a bias that is 0; torch.onnx.export with "
      "optimize=False keeps it)");
}

/// Notes BatchNorms that ONNX Runtime has folded into convolutions, as it does
/// where it saves an optimized model: it names what it makes of their weights.
/// Exporters that fold leave no such names.
void Compilation::noteFolded() {
  for (const autodiff::TrainedParameter &parameter : trained.trained)
    if (llvm::StringRef(parameter.name).starts_with("ConvBnFusion_")) {
      trainingNotes.push_back(
          "ONNX Runtime has folded BatchNorm into convolutions (it made \"" +
          parameter.name +
          "\"): the model trains without them; give the file that it was made "
          "from");
      return;
    }
}

std::vector<std::string> Compilation::getNotes() const {
  std::vector<std::string> all = report.notes;
  all.insert(all.end(), trainingNotes.begin(), trainingNotes.end());
  for (const auto *more : {&planningNotes, &packagingNotes})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}
