//===- SampleDims.cpp - where inputs of training have samples -------------===//
//
// Data has samples first. Of what has not (a sequence in front of them), the
// user is told, before a size is held against one that counts something else.
//
//===----------------------------------------------------------------------===//
#include "SampleDims.h"

#include "../Setup.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/rt/printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace kerf;
using namespace kerf::tool;

void kerf::tool::refuseBatch(const std::string &input, int64_t dim) {
  throw Failure{kUsage,
                "input \"" + input + "\" has its samples along dimension " +
                    std::to_string(dim) +
                    ", expected 0: data to train on has samples first "
                    "(batch_first=True in PyTorch)",
                {}};
}

bool kerf::tool::isSaidToBeShared(const ImportOptions &options,
                                  const std::string &input) {
  auto dim = options.batchDims.find(input);
  return (dim != options.batchDims.end() && dim->second < 0) ||
         options.constants.count(input);
}

std::vector<std::string> kerf::tool::hintOnShared(const std::string &input,
                                                  int64_t size) {
  return {"the export fixed the batch at " + std::to_string(size) +
              ": --batch-size=" + std::to_string(size) +
              ", or export with dynamic_shapes (docs/Train.md)",
          "if the input has no samples, but is the same in every step: "
          "--batch-dim " +
              input + "=-1"};
}

void kerf::tool::refuseUntold(const std::string &model,
                              const std::string &input, int64_t size,
                              int64_t samples) {
  if (size != samples)
    throw Failure{kUsage,
                  model + ": input \"" + input + "\" begins with " +
                      std::to_string(size) + ", the batch is " +
                      std::to_string(samples),
                  {hintOnShared(input, size).back()}};
  throw Failure{kUsage,
                model + ": input \"" + input + "\" always begins with " +
                    std::to_string(size) +
                    ", which is the batch, too, perhaps by chance: of the "
                    "other inputs the first size is open",
                {"if it has no samples, but is the same in every step: "
                 "--batch-dim " +
                 input + "=-1; if it has: --batch-dim " + input + "=0"}};
}

void kerf::tool::requireSamplesApart(const Options &options,
                                     const ImportReport &report) {
  const ImportOptions import = compilationOptions(options).import;
  if (options.shuffle == "off")
    return;
  for (const ModelValue &input : report.inputs) {
    if (input.dims.size() < 2 || input.dims[0].symbol.empty() ||
        isSaidToBeShared(import, input.name))
      continue;
    const std::string &symbol = input.dims[0].symbol;
    auto again = std::find_if(
        input.dims.begin() + 1, input.dims.end(),
        [&](const ModelValue::Dim &dim) { return dim.symbol == symbol; });
    if (again == input.dims.end())
      continue;
    // Of more dimensions a sample may have as many rows as a batch has samples.
    if (input.dims.size() == 2)
      throw Failure{
          kUsage,
          options.model + ": input \"" + input.name + "\" counts samples (\"" +
              symbol +
              "\") along both dimensions, and shuffling would move its rows "
              "alone",
          {"one graph whose nodes are the samples is trained as a whole and "
           "in its order: --shuffle=off, and a batch of all samples"}};
    if (!options.quiet)
      llvm::errs() << "note: "
                   << rt::printable(
                          "\"" + input.name + "\" counts \"" + symbol +
                          "\" along dimensions 0 and " +
                          std::to_string(again - input.dims.begin()) +
                          ", and shuffling moves the first alone: if the other "
                          "are samples as well (one graph, whose nodes they "
                          "are): --shuffle=off")
                   << "\n";
  }
}

void kerf::tool::noteSquare(const Options &options, const ImportReport &report,
                            mlir::func::FuncOp main) {
  const ImportOptions import = compilationOptions(options).import;
  std::vector<std::string> square, others;
  int64_t size = 0;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    if (!main.getArgAttr(i, kBatchDimAttr))
      continue;
    auto name = main.getArgAttrOfType<mlir::StringAttr>(i, kNameAttr).str();
    auto input = llvm::find_if(report.inputs, [&](const ModelValue &each) {
      return each.name == name;
    });
    // A dimension with a name is what its name says.
    bool isSquare = input != report.inputs.end() && input->dims.size() == 2 &&
                    input->dims[0].symbol.empty() &&
                    input->dims[1].symbol.empty() &&
                    input->dims[0].size == input->dims[1].size &&
                    !import.batchDims.count(name);
    if (isSquare)
      size = input->dims[0].size;
    (isSquare ? square : others).push_back("\"" + name + "\"");
  }
  if (options.quiet || square.empty() || others.empty())
    return;
  std::string shape = std::to_string(size) + "x" + std::to_string(size);
  llvm::errs() << "note: "
               << rt::printable("the rows of " + llvm::join(square, ", ") +
                                " (" + shape +
                                ") are taken for samples, as "
                                "those of " +
                                llvm::join(others, ", ") +
                                " are: --batch-dim NAME=-1 says that one is "
                                "the same in every step, NAME=0 that it has "
                                "samples; if its columns are samples as well "
                                "(one graph, whose nodes they are): "
                                "--shuffle=off")
               << "\n";
}

/// Whether a dimension is called what samples are counted by, where it is the
/// leading one: n, b, samples. Elsewhere n may be anything.
static bool namesSamples(llvm::StringRef symbol) {
  return namesBatch(symbol) || symbol.equals_insensitive("n") ||
         symbol.equals_insensitive("b") ||
         symbol.contains_insensitive("sample");
}

/// Whether a dimension is called what a sample has several of.
static bool namesSequence(llvm::StringRef symbol) {
  return llvm::any_of(
      std::initializer_list<llvm::StringRef>{"seq", "len", "time", "step",
                                             "token", "height", "width"},
      [&](llvm::StringRef part) { return symbol.contains_insensitive(part); });
}

/// Refuses an input whose samples lie behind another dimension, as in models
/// that have the sequence first: as the user, names or open sizes say. Its
/// first size is no batch that the export fixed.
static void requireSamplesFirst(const ImportOptions &import,
                                const ImportReport &report) {
  std::set<std::string> leading; // open ones
  std::set<int64_t> fixed;       // of inputs with no open size
  for (const ModelValue &input : report.inputs) {
    auto said = import.batchDims.find(input.name);
    if (said != import.batchDims.end() && said->second > 0 &&
        said->second < int64_t(input.dims.size()))
      refuseBatch(input.name, said->second);
    if (input.dims.empty() || isSaidToBeShared(import, input.name))
      continue;
    if (!input.dims[0].symbol.empty())
      leading.insert(input.dims[0].symbol);
    else if (llvm::all_of(input.dims,
                          [](const auto &dim) { return dim.symbol.empty(); }))
      fixed.insert(input.dims[0].size);
  }
  for (const ModelValue &input : report.inputs) {
    if (input.dims.empty() || import.batchDims.count(input.name) ||
        isSaidToBeShared(import, input.name))
      continue;
    for (size_t dim = 1; dim < input.dims.size(); ++dim)
      if (namesBatch(input.dims[dim].symbol) &&
          !namesBatch(input.dims[0].symbol))
        refuseBatch(input.name, dim);
    if (!input.dims[0].symbol.empty())
      continue;
    std::vector<size_t> open;
    for (size_t dim = 1; dim < input.dims.size(); ++dim)
      if (const std::string &symbol = input.dims[dim].symbol;
          !symbol.empty() && (leading.empty() ? !namesSequence(symbol)
                                              : leading.count(symbol) > 0))
        open.push_back(dim);
    // The size with which others begin may be the batch; sequences of one
    // element are none.
    int64_t first = input.dims[0].size;
    if (open.size() != 1 ||
        (leading.empty() && (first == 1 || fixed.count(first))))
      continue;
    const std::string &symbol = input.dims[open[0]].symbol;
    throw Failure{
        kUsage,
        "input \"" + input.name + "\" begins with " + std::to_string(first) +
            ", its samples seem to lie along dimension " +
            std::to_string(open[0]) + " (\"" + symbol + "\"), " +
            (leading.empty() ? "the only one that is open"
                             : "with which another input begins") +
            ", expected 0: data to train on has samples first "
            "(batch_first=True in PyTorch)",
        {"if its first dimension counts samples after all: --batch-dim " +
             input.name + "=0",
         "a model that has its sequence first can be exported within one that "
         "transposes what comes and goes (docs/Train.md)"}};
  }
}

std::string kerf::tool::takenForSamples(const Options &options,
                                        const ImportReport &report) {
  const ImportOptions import = compilationOptions(options).import;
  // Then dimension 1 is the sequence.
  if (options.quiet || options.sequenceLength > 0)
    return "";
  std::vector<std::vector<std::string>> symbols;
  for (const ModelValue &input : report.inputs)
    for (auto &ofInput = symbols.emplace_back(); const auto &dim : input.dims)
      ofInput.push_back(dim.symbol);
  if (llvm::any_of(symbols, [](const auto &ofInput) {
        return llvm::any_of(ofInput, namesBatch);
      }))
    return "";
  std::set<std::string> inner = sizesWithinSamples(symbols);
  std::string taken;
  std::vector<std::string> names;
  for (const ModelValue &input : report.inputs) {
    if (input.dims.empty() || import.batchDims.count(input.name) ||
        isSaidToBeShared(import, input.name))
      continue;
    const std::string &first = input.dims[0].symbol;
    bool hasOthers = llvm::any_of(input.dims, [&](const auto &dim) {
      return !dim.symbol.empty() && dim.symbol != first;
    });
    if (first.empty() || namesSamples(first) || inner.count(first) ||
        !hasOthers || (!taken.empty() && taken != first))
      continue;
    taken = first;
    names.push_back("\"" + input.name + "\"");
  }
  return names.empty() ? ""
                       : "samples are taken to lie along dimension 0 (\"" +
                             taken + "\") of " + llvm::join(names, ", ") +
                             ": no name says batch, and data to train on has "
                             "samples first (batch_first=True in PyTorch); "
                             "--batch-dim NAME=0 says so of the model";
}

void kerf::tool::bindSizes(Options &options, const ImportReport &report) {
  const ImportOptions import = compilationOptions(options).import;
  requireSamplesFirst(import, report);
  auto bind = [&](const ModelValue::Dim &dim, int64_t size, const char *flag,
                  const std::string &input, bool isLeading) {
    if (size == 0)
      return;
    if (dim.symbol.empty() && dim.size != size)
      throw Failure{kUsage,
                    std::string(flag) + " is " + std::to_string(size) +
                        ", input \"" + input + "\" has " +
                        std::to_string(dim.size),
                    isLeading ? hintOnShared(input, dim.size)
                              : std::vector<std::string>()};
    if (!dim.symbol.empty() &&
        llvm::is_contained(report.unboundDims, dim.symbol) &&
        llvm::none_of(options.dims, [&](const std::string &text) {
          return text.compare(0, dim.symbol.size() + 1, dim.symbol + "=") == 0;
        }))
      options.dims.push_back(dim.symbol + "=" + std::to_string(size));
  };
  bool isNamed = llvm::any_of(report.inputs, [](const ModelValue &input) {
    return !input.dims.empty() && namesBatch(input.dims[0].symbol);
  });
  std::vector<std::vector<std::string>> symbols;
  for (const ModelValue &input : report.inputs)
    for (auto &ofInput = symbols.emplace_back(); const auto &dim : input.dims)
      ofInput.push_back(dim.symbol);
  std::set<std::string> inner = sizesWithinSamples(symbols);
  for (const ModelValue &input : report.inputs) {
    if (isSaidToBeShared(import, input.name))
      continue;
    if (!input.dims.empty() &&
        (input.dims[0].symbol.empty() || namesBatch(input.dims[0].symbol) ||
         (!isNamed && !inner.count(input.dims[0].symbol))))
      bind(input.dims[0], options.batchSize, "--batch-size", input.name,
           /*isLeading=*/true);
    if (input.dims.size() == 2)
      bind(input.dims[1], options.sequenceLength, "--sequence-length",
           input.name, /*isLeading=*/false);
  }
}
