//===- Untie.cpp - equal tensors that an exporter stored once -------------===//
#include "Untie.h"
#include "../Graph/GraphReads.h"
#include "OwnReads.h"
#include "PartReads.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/OtherNames.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/NamePattern.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <tuple>

using namespace kerf;
using namespace kerf::onnx_import;
using namespace mlir;

/// The kind of use of a tensor. Running statistics are written by the step, so
/// a tensor that is one of them must not be used as anything else.
static int thingOf(const onnx::NodeProto &node, int input) {
  return node.op_type() == "BatchNormalization" && input >= 3 ? input : 0;
}

std::vector<UntiedCopy> kerf::onnx_import::untie(
    onnx::ModelProto &model, ModelFiles &files, MLIRContext &context,
    const std::vector<std::string> &tied, std::string &error) {
  std::vector<UntiedCopy> copies;
  onnx::GraphProto &graph = *model.mutable_graph();
  // Before version 4 every initializer is an input of the graph as well.
  if (model.ir_version() < 4)
    return copies;
  GraphReads reads(graph);
  std::vector<bool> used(tied.size());
  std::vector<OtherName> others; // before there are copies
  if (!tied.empty())
    others = otherNamesOf(graph);
  std::vector<std::string> shared;
  std::optional<PartReads> parts;
  int stored = graph.initializer_size();
  for (int t = 0; t < stored; ++t) {
    const std::string name = graph.initializer(t).name();
    auto readers = reads.here.find(name);
    bool isHere = readers != reads.here.end() && readers->second.size() > 1;
    bool isElsewhere = reads.elsewhere.contains(name);
    if (!isHere && !isElsewhere)
      continue;
    shared.push_back(name);
    for (size_t p = 0; p < tied.size(); ++p)
      if (namePattern(tied[p]).match(name))
        used[p] = true;
    if (isElsewhere)
      continue;
    std::string unread;
    ModelFiles::Fault fault;
    auto data = files.read(&context, graph.initializer(t), unread, fault);
    // A literal has no bytes that training could write over; a number without
    // dimensions is a constant.
    if (!data || data->file < 0 || data->type.getRank() == 0 ||
        !isComputedFloat(data->type.getElementType()) ||
        (data->type.getRank() > 1 && !isUniform(*data)))
      continue;
    bool isTied = llvm::any_of(tied, [&](const std::string &pattern) {
      return namePattern(pattern).match(name);
    });
    if (!isTied && !parts)
      parts.emplace(graph);
    // A tied tensor stays one for each kind of use, and so do different parts
    // of one: who reads a part again reads another tensor. So does a module
    // that is applied several times.
    std::map<std::string, int> timesRead;
    // A softplus that the exporter writes as several nodes reads it once.
    llvm::StringMap<int> ofCall;
    int number = 2, whole = 0;
    using Thing = std::tuple<char, int, int>;
    auto thingRead = [&](const GraphReads::Read &use) -> Thing {
      const onnx::NodeProto &node = graph.node(use.node);
      bool isOwn = isOwnRead(node, name);
      int kind = thingOf(node, use.input);
      StringRef call = callOf(node);
      // Running statistics that the file says to be others stay apart.
      if (isTied)
        return {'k', kind,
                kind != 0 && !call.empty() && !isOwn ? use.node : -1};
      if (std::optional<std::string> part = parts->partOf(node, use.input)) {
        StringRef where = call.empty() ? scopeOf(node) : call;
        return {'p', timesRead[*part + (isOwn ? "\n" + where.str() : "")]++, 0};
      }
      if (isOwn)
        return {'o', kind, 0};
      // A norm's scale and its variance may both be stored as it.
      if (!call.empty()) {
        StringRef argument = argumentLike(call, name);
        return {
            'c', kind,
            ofCall
                .try_emplace(argument.empty() ? call : argument, ofCall.size())
                .first->second};
      }
      return {'w', whole++, 0};
    };
    SmallVector<Thing> things = llvm::map_to_vector(readers->second, thingRead);
    // The name is that of who reads it as its own.
    auto own = llvm::find_if(readers->second, [&](const GraphReads::Read &use) {
      return isOwnRead(graph.node(use.node), name);
    });
    std::map<Thing, std::string> ofThing;
    ofThing[things[own == readers->second.end()
                       ? 0
                       : own - readers->second.begin()]] = name;
    for (auto [use, thing] : llvm::zip(readers->second, things)) {
      std::string &copy = ofThing[thing];
      if (copy == name)
        continue;
      if (copy.empty()) {
        do
          copy = name + "." + std::to_string(number++);
        while (!reads.defined.insert(copy).second);
        onnx::TensorProto tensor = graph.initializer(t);
        tensor.set_name(copy);
        *graph.add_initializer() = std::move(tensor);
      }
      graph.mutable_node(use.node)->set_input(use.input, copy);
      copies.push_back({copy, name, use.node, use.input});
    }
  }
  for (size_t p = 0; p < tied.size(); ++p)
    if (!used[p] && error.empty()) {
      std::string why = storedAs(others, tied[p]);
      error = "option tied: no initializer that several nodes read matches '" +
              tied[p] + "'" +
              (why.empty() ? closestPattern(tied[p], shared) : ": " + why);
    }
  return copies;
}

void kerf::onnx_import::markCopies(ModuleOp module,
                                   ArrayRef<UntiedCopy> copies) {
  llvm::StringMap<StringRef> originals;
  for (const UntiedCopy &copy : copies)
    originals[copy.name] = copy.original;
  module.walk([&](nn::WeightOp weight) {
    if (auto found = originals.find(weight.getName()); found != originals.end())
      weight->setAttr(kCopyOfAttr,
                      StringAttr::get(module.getContext(), found->second));
  });
}
