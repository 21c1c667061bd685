//===- CallEntries.cpp - calls as entries of manifest.json ----------------===//
//
// See CallEntries.h. Operands and attributes of library calls are written in
// the same way for all kinds, through the interface; setMatmul and setMore
// write the rest.
//
//===----------------------------------------------------------------------===//
#include "CallEntries.h"

#include "kerf/Entries/Entries.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf;
namespace json = llvm::json;

static int64_t number(uint64_t value) { return static_cast<int64_t>(value); }

json::Object kerf::gpuEntry(exec::GpuKernelAttr gpu, bool isKernel) {
  json::Array access;
  for (size_t i = 0; i < gpu.getBytes().size(); ++i)
    access.push_back(static_cast<int64_t>(i) < gpu.getReads() ? "read"
                                                              : "write");
  json::Object entry{{"entry", gpu.getEntry()},
                     {"grid", json::Array(gpu.getGrid())},
                     {"block", json::Array(gpu.getBlock())},
                     {"shared_bytes", 0},
                     {"buffers", static_cast<int64_t>(gpu.getBytes().size())},
                     {"scalars", 0},
                     {"bytes", json::Array(gpu.getBytes())},
                     {"access", std::move(access)}};
  if (isKernel)
    entry["fails"] = gpu.getFails();
  if (!gpu.getArguments().empty())
    entry["arguments"] = json::Array(gpu.getArguments());
  if (exec::GpuBatchAttr batch = gpu.getBatch())
    entry["batch"] = json::Object{{"entry", batch.getEntry()},
                                  {"elements", batch.getElements()},
                                  {"chunk", batch.getChunk()},
                                  {"threads", batch.getThreads()}};
  return entry;
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

static json::Object operandEntry(const exec::CallBuffers &buffers,
                                 OpOperand &operand, exec::ViewAttr view) {
  json::Object entry;
  if (auto weight = operand.get().getDefiningOp<exec::WeightOp>())
    entry["param"] = number(weight.getIndex());
  else
    entry["buffer"] = buffers.numberOf(operand);
  if (view && !view.getStrides().empty())
    entry["strides"] = json::Array(view.getStrides());
  if (view && view.getOffset() != 0)
    entry["offset"] = view.getOffset();
  return entry;
}

static json::Array epilogueEntry(const exec::CallBuffers &buffers,
                                 exec::LibraryCallInterface call) {
  json::Array steps;
  auto operands = call.getEpilogueOperands();
  unsigned next = operands.empty() ? 0 : operands.getBeginOperandIndex();
  for (exec::PostOpAttr step : call.getEpilogue()) {
    json::Object entry{{"kind", stringifyPostOpKind(step.getKind())}};
    if (step.getAlpha())
      entry["alpha"] = step.getAlpha().getValueAsDouble();
    if (step.getBeta())
      entry["beta"] = step.getBeta().getValueAsDouble();
    if (step.hasOperand())
      entry["operand"] =
          operandEntry(buffers, call->getOpOperand(next++), step.getView());
    steps.push_back(std::move(entry));
  }
  return steps;
}

static void setWindow(json::Object &entry, exec::WindowAttr window) {
  entry["in"] = json::Array(window.getIn());
  entry["out"] = json::Array(window.getOut());
  entry["kernel"] = json::Array(window.getKernel());
  entry["strides"] = json::Array(window.getStrides());
  entry["pads_low"] = json::Array(window.getLow());
  entry["pads_high"] = json::Array(window.getHigh());
  entry["dilations"] = json::Array(window.getDilations());
}

static void setSizes(json::Object &entry, exec::AttentionSizesAttr sizes) {
  entry["batch"] = sizes.getBatch();
  entry["heads"] = sizes.getHeads();
  entry["key_heads"] = sizes.getKeyHeads();
  entry["queries"] = sizes.getQueries();
  entry["keys"] = sizes.getKeys();
  entry["head_size"] = sizes.getHeadSize();
  entry["value_size"] = sizes.getValueSize();
}

/// Numbers, lists and marks, by their names on the op.
static void setAttributes(json::Object &entry,
                          exec::LibraryCallInterface call) {
  for (StringAttr key : call->getName().getAttributeNames()) {
    StringRef name = key.getValue();
    Attribute attribute = call->getAttr(key);
    // The index is the entry's place in the list.
    if (!attribute || key == call.getIndexAttrName())
      continue;
    llvm::TypeSwitch<Attribute>(attribute)
        .Case<IntegerAttr>([&](auto number) { entry[name] = number.getInt(); })
        .Case<FloatAttr>(
            [&](auto number) { entry[name] = number.getValueAsDouble(); })
        .Case<DenseI64ArrayAttr>(
            [&](auto list) { entry[name] = json::Array(list.asArrayRef()); })
        .Case<UnitAttr>([&](auto) { entry[name] = true; })
        .Case<exec::WindowAttr>([&](auto window) { setWindow(entry, window); })
        .Case<exec::AttentionSizesAttr>(
            [&](auto sizes) { setSizes(entry, sizes); });
  }
}

/// The alternatives of a matmul (offers), and a batch without dimensions.
static void setMatmul(json::Object &entry, exec::MatmulOp op,
                      const exec::CallBuffers &buffers) {
  entry["batch"] = json::Array(op.getBatch());
  if (auto sums = op.getBiasGradient())
    entry["bias_gradient"] =
        json::Object{{"buffer", buffers.numberOf(*op.getSumsMutable().begin())},
                     {"kernel", sums->getKernel()},
                     {"operand", stringifySide(sums->getOf())},
                     {"rows", sums->getRows()}};
  if (auto relu = op.getReluGradient())
    entry["relu_gradient"] = json::Object{{"forward", relu->getForward()},
                                          {"kernel", relu->getKernel()}};
}

template <typename Op> static void setAttention(json::Object &entry, Op op) {
  entry["causal"] = op.getCausal();
  if (Value bias = op.getBias())
    if (Type element = exec::elementType(bias);
        element != exec::elementType(op.getQ()))
      entry["bias_dtype"] = dtypeName(element);
}

/// The parts of an entry that are not attributes of the op.
static void setMore(json::Object &entry, exec::LibraryCallInterface call,
                    const exec::CallBuffers &buffers) {
  llvm::TypeSwitch<Operation *>(call)
      .Case<exec::MatmulOp>(
          [&](exec::MatmulOp op) { setMatmul(entry, op, buffers); })
      .Case<exec::ScatterAddOp>([&](exec::ScatterAddOp op) {
        entry["index_dtype"] = dtypeName(exec::elementType(op.getIndices()));
      })
      .Case<exec::ScatterOp>([&](exec::ScatterOp op) {
        entry["index_dtype"] = dtypeName(exec::elementType(op.getIndices()));
        entry["update"] = stringifyScatterKind(op.getUpdate());
      })
      .Case<exec::AttentionOp, exec::AttentionGradientOp>(
          [&](auto op) { setAttention(entry, op); });
}

json::Object kerf::libraryEntry(exec::LibraryCallInterface call) {
  exec::CallBuffers buffers(call);
  json::Object entry{{"kind", call->getName().stripDialect()},
                     {"node", call.getNode()},
                     {"dtype", dtypeName(call.getInputType())}};
  if (auto phase = call.getPhase())
    entry["phase"] = stringifyPhase(*phase);
  if (call.getResultType() != call.getInputType())
    entry["dst_dtype"] = dtypeName(call.getResultType());
  setAttributes(entry, call);
  setMore(entry, call, buffers);
  if (exec::GpuKernelAttr gpu = call.getCudaAttr())
    entry["cuda"] = gpuEntry(gpu, /*isKernel=*/false);
  for (const exec::Role &role : call.getRoles())
    entry[role.name] = operandEntry(buffers, *role.operand, role.view);
  if (json::Array steps = epilogueEntry(buffers, call); !steps.empty())
    entry["post_ops"] = std::move(steps);
  return entry;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

template <typename Op> static json::Object describe(Op op) {
  MemRefType src = op.getSrc().getType(), dst = op.getDst().getType();
  json::Object entry = collectiveEntry(
      op.getKind().getValue(), dist::CollectiveArguments::of(op), op.getAxes(),
      src, dst, exec::groupSize(op, op.getAxes()),
      dtypeName(src.getElementType()));
  entry["group_bytes"] = number(op.getGroupBytes());
  entry["node"] = op.getNode();
  entry["tensor"] = op.getNode();
  entry["purpose"] = stringifyPurpose(op.getPurpose().getValue());
  entry["phase"] = stringifyPhase(op.getPhase());
  return entry;
}

json::Object kerf::collectiveEntry(exec::CollectiveOp collective) {
  return describe(collective);
}

json::Object kerf::collectiveEntry(exec::CollectiveStartOp collective) {
  return describe(collective);
}
