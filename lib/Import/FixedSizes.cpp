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
#include "Importer.h"

#include "kerf/Import/State.h"

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

/// The first thing that is wrong, where that is a matter of the model.
static const ImportIssue *firstRefusal(const ImportReport &report) {
  if (report.issues.empty() ||
      report.issues.front().kind != ImportIssue::Kind::Refused)
    return nullptr;
  return &report.issues.front();
}

namespace {
/// The model with another size of one dimension.
class Trials {
public:
  Trials(MLIRContext &context, StringRef path, const ImportOptions &options,
         const ImportIssue &issue)
      : context(context), path(path), options(options), issue(issue) {}

  /// Whether the error reads differently, or there is none.
  bool changesWith(const std::string &name, int64_t size) const {
    ImportReport other;
    run(name, size, other);
    const ImportIssue *same = firstRefusal(other);
    return !same || same->node != issue.node || same->message != issue.message;
  }

  /// A size below the one that was given that is taken, where the next is not;
  /// 0: not even 1 is.
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
    return taken;
  }

private:
  void run(const std::string &name, int64_t size, ImportReport &report) const {
    ImportOptions changed = options;
    changed.dims[name] = size;
    (void)Importer(context, changed, report).run(path);
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
  const ImportIssue *issue = firstRefusal(report);
  if (!issue)
    return;
  Trials trials(context, path, options, *issue);
  std::string sizes, taken;
  for (const auto &[name, size] : options.dims) {
    if (!trials.changesWith(name, size > 1 ? size - 1 : size + 1))
      continue;
    sizes += (sizes.empty() ? "" : ", ") + name + "=" + std::to_string(size);
    if (int64_t last = trials.lastTaken(name))
      taken += (taken.empty() ? "" : ", ") + name + "=" + std::to_string(last) +
               " and not " + std::to_string(last + 1);
  }
  if (sizes.empty())
    return;
  std::vector<std::string> &notes = report.issues.front().notes;
  notes.push_back("it depends on sizes that were given: " + sizes);
  notes.push_back(
      !taken.empty()
          ? "of smaller sizes the model takes " + taken +
                ", as if a table had so many rows (of positions, say)"
          : "the sizes contradict each other, or one is fixed by the "
            "export, which is then the only one: give that "
            "one, or export the model again with the dimension open in "
            "inputs and outputs (torch.onnx.export: dynamic_axes, or "
            "dynamic_shapes with dynamo=True)");
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
