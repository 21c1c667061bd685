//===- FixedSizes.cpp - sizes that an export has fixed --------------------===//
//
// Exporters write sizes of the example into the file where they were not told
// that a dimension is open: into declared shapes of outputs, targets of
// reshapes, tables of positions. Such a model is refused at a node that looks
// right, and only the sizes that are given are to blame.
//
// Idea: import the model again with another size. If the error then reads
// differently or is gone, that size is to blame for it.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"

#include "kerf/Import/State.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

/// Whether it may be a matter of sizes: another one may mend it.
static bool mayBeOfSizes(const ImportIssue &issue) {
  return issue.kind == ImportIssue::Kind::Refused || issue.isOfSizes;
}

/// The first thing that is wrong, where that is a matter of the model.
static ImportIssue *firstRefusal(ImportReport &report) {
  if (report.issues.empty() || !mayBeOfSizes(report.issues.front()))
    return nullptr;
  return &report.issues.front();
}

static bool isSame(const ImportIssue &a, const ImportIssue &b) {
  return a.node == b.node && a.message == b.message;
}

/// "input "ids"", "inputs "ids", "mask"": those that have the dimension.
static std::string inputsWith(const std::string &dim,
                              const ImportReport &report) {
  std::string names;
  size_t count = 0;
  for (const ModelValue &input : report.inputs)
    if (llvm::any_of(input.dims,
                     [&](const auto &each) { return each.symbol == dim; })) {
      names += (names.empty() ? "\"" : ", \"") + input.name + "\"";
      ++count;
    }
  return (count == 1 ? "input " : "inputs ") + names;
}

namespace {
using Sizes = decltype(ImportOptions::dims);

/// "a=1, b=2".
static std::string textOf(const Sizes &sizes) {
  std::string text;
  for (const auto &[name, size] : sizes)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(size);
  return text;
}

/// The model with other sizes.
class Trials {
public:
  Trials(MLIRContext &context, StringRef path, const ImportOptions &options,
         const ImportIssue &issue)
      : context(context), path(path), options(options), issue(issue) {}

  /// Whether the error reads differently, or there is none. `other`: what is
  /// wrong then.
  bool changesWith(const std::string &name, int64_t size,
                   ImportReport &other) const {
    run(name, size, other);
    const ImportIssue *same = firstRefusal(other);
    return !same || !isSame(*same, issue);
  }

  /// An accepted size of a dimension whose next size is refused, found by
  /// bisection below the size that was given; 0: none. The size before it must
  /// be accepted, too: where only one size is, since it must be 1 or equal to
  /// another dimension's, the given one is wrong but not too large.
  int64_t lastTaken(const std::string &name) const {
    int64_t taken = 0, refused = options.dims.at(name);
    while (refused - taken > 1) {
      int64_t size = taken == 0 ? 1 : taken + (refused - taken) / 2;
      ImportReport other;
      run(name, size, other);
      if (other.exitCode() == 0)
        taken = size;
      else if (taken == 0)
        return 0;
      else
        refused = size;
    }
    return taken > 1 && isTakenWith(name, taken - 1) ? taken : 0;
  }

  bool isTakenWith(const std::string &name, int64_t size) const {
    Sizes sizes = options.dims;
    sizes[name] = size;
    return areTaken(sizes);
  }

  /// Sizes of as few dimensions as possible that would make the model
  /// accepted. Tried are first sizes of one dimension near the one given (not
  /// 1, which is accepted wherever it is repeated), then the next multiples of
  /// a power of two, since models that halve their images and double them again
  /// need those. Empty: none were found. `suspects`: the given sizes of which
  /// each, changed alone, makes the model accepted; otherwise all that may be
  /// to blame.
  Sizes mendingSizes(Sizes &suspects) const {
    Sizes nearest, found;
    int64_t least = INT64_MAX;
    for (const auto &[name, size] : options.dims)
      for (int64_t far : {1, -1, 2, -2, 3, -3, 4, -4})
        if (size + far > 1 && isTakenWith(name, size + far)) {
          found[name] = size;
          if (std::abs(far) < least) {
            least = std::abs(far);
            nearest = {{name, size + far}};
          }
          break;
        }
    if (!found.empty()) {
      suspects = found;
      return nearest;
    }
    for (int64_t multiple : {2, 4, 8, 16, 32, 64}) {
      Sizes sizes = options.dims;
      for (auto &entry : sizes)
        entry.second = llvm::alignTo(entry.second, multiple);
      if (!areTaken(sizes))
        continue;
      Sizes mending;
      for (const auto &[name, size] : options.dims) {
        int64_t other = std::exchange(sizes[name], size);
        if (other == size || areTaken(sizes))
          continue;
        sizes[name] = other;
        mending[name] = other;
        suspects[name] = size;
      }
      return mending;
    }
    return {};
  }

private:
  void run(const std::string &name, int64_t size, ImportReport &report) const {
    ImportOptions changed = options;
    changed.dims[name] = size;
    (void)Importer(context, changed, report).run(path);
  }

  bool areTaken(const Sizes &sizes) const {
    ImportOptions changed = options;
    changed.dims = sizes;
    ImportReport report;
    (void)Importer(context, changed, report).run(path);
    return report.exitCode() == 0;
  }

  MLIRContext &context;
  StringRef path;
  const ImportOptions &options;
  const ImportIssue &issue;
};
} // namespace

void kerf::onnx_import::noteFixedSizes(MLIRContext &context, StringRef path,
                                       const ImportOptions &options,
                                       ImportReport &report) {
  ImportIssue *first = firstRefusal(report);
  if (!first)
    return;
  Trials trials(context, path, options, *first);
  Sizes sizes;
  std::vector<std::string> tooLarge;
  std::vector<ImportReport> others;
  for (const auto &[name, size] : options.dims) {
    ImportReport other;
    if (!trials.changesWith(name, size > 1 ? size - 1 : size + 1, other))
      continue;
    others.push_back(std::move(other));
    sizes[name] = size;
    if (int64_t last = trials.lastTaken(name))
      tooLarge.push_back(
          textOf({{name, size}}) + " of " + inputsWith(name, report) +
          " is too large: the model takes " + name + "=" +
          std::to_string(last) + " and not " + std::to_string(last + 1) +
          ", as if a table had so many rows (of positions, "
          "say)");
  }
  // An error of usage has said that another size mends it.
  if (sizes.empty() || (first->isOfSizes && tooLarge.empty()))
    return;
  // What changes the text of the error need not be what it comes of.
  Sizes mending = tooLarge.empty() ? trials.mendingSizes(sizes) : Sizes();
  // With a size that is taken nothing is wrong. Else what reads differently
  // with another size is of the sizes as well.
  auto isConsequence = [&](const ImportIssue &issue) {
    if (isSame(issue, *first) || !mayBeOfSizes(issue))
      return false;
    return !tooLarge.empty() ||
           llvm::any_of(others, [&](const ImportReport &other) {
             return llvm::none_of(other.issues, [&](const ImportIssue &each) {
               return isSame(each, issue);
             });
           });
  };
  auto rest = std::stable_partition(
      report.issues.begin(), report.issues.end(),
      [&](const ImportIssue &issue) { return !isConsequence(issue); });
  auto numRest = report.issues.end() - rest;
  report.issues.erase(rest, report.issues.end());
  first = &report.issues.front();
  std::vector<std::string> &notes = first->notes;
  if (!tooLarge.empty()) { // the model is fine
    first->kind = ImportIssue::Kind::Usage;
    notes.insert(notes.end(), tooLarge.begin(), tooLarge.end());
  } else {
    notes.push_back("it depends on sizes that were given: " + textOf(sizes));
    if (!mending.empty())
      notes.push_back("the model takes, for example, " + textOf(mending) +
                      " with the others as they are");
    notes.push_back("the sizes contradict each other, or one is fixed by the "
                    "export, which is then the only one: give that one, or "
                    "export the model again with the dimension open in inputs "
                    "and outputs (torch.onnx.export: dynamic_axes, or "
                    "dynamic_shapes with dynamo=True)");
  }
  if (numRest > 0)
    notes.push_back(std::to_string(numRest) +
                    (numRest == 1 ? " error at another node comes"
                                  : " errors at other nodes come") +
                    " of the same");
}

std::vector<std::string>
kerf::onnx_import::notesOnOpenSizes(const onnx::GraphProto &graph) {
  StateOptions exporters;
  exporters.automatic = true;
  std::vector<std::string> inputs, outputs;
  for (const auto &input : graph.input())
    inputs.push_back(input.name());
  for (const auto &output : graph.output())
    outputs.push_back(output.name());
  std::vector<StatePair> pairs = findStatePairs(exporters, inputs, outputs);
  if (pairs.empty())
    return {};
  return {"\"" + pairs.front().input +
          "\" is a cache: option cache-length=POSITIONS binds all sizes of a "
          "decoder's steps"};
}

/// Says which loop it is that makes the model too large.
void Importer::refuseSize(StringRef prefix) {
  StringRef loop = prefix.take_until([](char c) { return c == '/'; });
  refuse(loop, "the model has more than " + Twine(kMaxNodes) +
                   " nodes when each iteration of its loops and each call of "
                   "its functions is written out");
  report.issues.back().notes.push_back(
      "a loop over the samples (nn.EmbeddingBag of PyTorch's exporter is one) "
      "has as many iterations as the batch: take a smaller one, or "
      "nn.Embedding and a sum over the bag");
}
