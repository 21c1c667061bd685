//===- ManifestCheck.cpp - entries of a manifest against each other -------===//
//
// Instruction lists name slots, functions, channels and global tensors: every
// use is checked against the entry that it names, and the sends of each channel
// against its receives. A manifest that passes cannot access memory outside of
// the arena.
//
//===----------------------------------------------------------------------===//
#include "Manifest.h"

#include "kerf/rt/program.h"

#include <algorithm>
#include <set>

using namespace kerf::rt;

namespace {
[[noreturn]] void bad(const std::string &where, const std::string &reason) {
  throw Error(KERF_BAD_PACKAGE, "manifest.json: " + where + ": " + reason);
}

void checkSlots(const StageDesc &stage, const std::string &where) {
  auto inArena = [&](int64_t offset, int64_t bytes, const std::string &what) {
    if (offset % KERF_BUFFER_ALIGNMENT)
      bad(what, cat("offset ", offset, " is not a multiple of ",
                    KERF_BUFFER_ALIGNMENT));
    if (addChecked(offset, bytes) > stage.arenaBytes)
      bad(what, cat("ends at ", offset + bytes, ", past the arena of ",
                    stage.arenaBytes, " bytes"));
  };
  for (size_t i = 0; i < stage.slots.size(); ++i)
    inArena(stage.slots[i].offset, stage.slots[i].bytes,
            cat(where, ".slots[", i, "]"));
  inArena(stage.scratchOffset, stage.scratchBytes, where + ".scratch");
}

void checkInstruction(const Manifest &m, int64_t stageIndex,
                      const Instruction &in, const std::string &where) {
  const StageDesc &stage = m.stages[stageIndex];
  auto needs = [&](int64_t slot, int64_t bytes) {
    if (slot >= static_cast<int64_t>(stage.slots.size()))
      bad(where, cat("slot ", slot, " is not one of ", stage.slots.size()));
    if (stage.slots[slot].bytes < bytes)
      bad(where, cat("slot ", slot, " has ", stage.slots[slot].bytes,
                     " bytes, needs ", bytes));
  };
  switch (in.op) {
  case Instruction::Input:
  case Instruction::Output: {
    const GlobalTensor &t =
        (in.op == Instruction::Input ? m.inputs : m.outputs)[in.index];
    needs(in.slots[0],
          numBytes(in.op == Instruction::Input ? in.localShape : t.localShape,
                   t.dtype));
    return;
  }
  case Instruction::Run: {
    const FunctionDesc &f = m.functions[in.index];
    if (in.slots.size() != f.ios.size())
      bad(where, cat("has ", in.slots.size(), " slots, function \"", f.symbol,
                     "\" takes ", f.ios.size()));
    for (size_t i = 0; i < f.ios.size(); ++i)
      needs(in.slots[i], f.ios[i].bytes());
    if (stage.scratchBytes < f.scratchBytes)
      bad(where, cat("function \"", f.symbol, "\" needs ", f.scratchBytes,
                     " bytes of scratch, the stage has ", stage.scratchBytes));
    return;
  }
  case Instruction::Send:
  case Instruction::Recv: {
    const ChannelDesc &c = m.channels[in.index];
    int64_t expected = in.op == Instruction::Send ? c.fromStage : c.toStage;
    if (expected != stageIndex)
      bad(where, cat("channel ", in.index, " has its ",
                     in.op == Instruction::Send ? "sender" : "receiver",
                     " in stage ", expected));
    needs(in.slots[0], c.bytes());
    return;
  }
  case Instruction::Zero:
    needs(in.slots[0], 0);
    return;
  }
}

// Every derived parameter of a stage is written by exactly one init call.
void checkInit(const Manifest &m, int64_t stageIndex) {
  std::set<int64_t> written;
  const StageDesc &stage = m.stages[stageIndex];
  for (size_t i = 0; i < stage.init.size(); ++i) {
    const InitCall &call = stage.init[i];
    const FunctionDesc &f = m.functions[call.function];
    std::string where = cat("stages[", stageIndex, "].init[", i, "]");
    if (f.numArguments != 0 || f.ios.size() != call.parameters.size())
      bad(where, cat("function \"", f.symbol, "\" has ", f.numArguments,
                     " arguments and ", f.ios.size(), " ios, expected 0 and ",
                     call.parameters.size()));
    for (size_t j = 0; j < call.parameters.size(); ++j) {
      const Parameter &p = m.parameters[call.parameters[j]];
      if (p.source != Parameter::Derived || !p.heldBy(stageIndex))
        bad(where,
            "parameter \"" + p.name + "\" is not a derived one of this stage");
      if (!written.insert(call.parameters[j]).second)
        bad(where, "parameter \"" + p.name + "\" is written twice");
      if (f.ios[j].bytes() != numBytes(p.localShape, p.dtype))
        bad(where, cat("parameter \"", p.name, "\" has ",
                       numBytes(p.localShape, p.dtype),
                       " bytes, the function writes ", f.ios[j].bytes()));
    }
  }
  for (size_t i = 0; i < m.parameters.size(); ++i)
    if (m.parameters[i].source == Parameter::Derived &&
        m.parameters[i].heldBy(stageIndex) &&
        !written.count(static_cast<int64_t>(i)))
      bad(cat("parameters[", i, "]"), "derived, but no init call writes it");
}

// The micro-batches that pass each channel, in the order of one side.
std::vector<std::vector<int64_t>> traffic(const Manifest &m,
                                          Instruction::Op op) {
  std::vector<std::vector<int64_t>> result(m.channels.size());
  for (const StageDesc &stage : m.stages)
    for (const Instruction &in : stage.instructions)
      if (in.op == op)
        result[in.index].push_back(in.microBatch);
  return result;
}
} // namespace

bool Parameter::heldBy(int64_t stage) const {
  return stages.empty() ||
         std::find(stages.begin(), stages.end(), stage) != stages.end();
}

std::vector<const Operand *> LibraryDesc::operands() const {
  std::vector<const Operand *> all = {&lhs,  &rhs, &bias,
                                      &most, &dst, &biasGradient.sums};
  const AttentionDesc &a = attention;
  if (isAttention())
    all.insert(all.end(), {&a.v, &a.stats, &a.out, &a.diff, &a.dk, &a.dv});
  for (const PostOp &op : postOps)
    all.push_back(&op.operand);
  return all;
}

std::vector<int64_t> kerf::rt::modelOutputs(const Manifest &manifest) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < manifest.outputs.size(); ++i)
    if (!manifest.outputs[i].isLength)
      numbers.push_back(static_cast<int64_t>(i));
  return numbers;
}

int64_t BiasGradient::columns(const LibraryDesc &desc) const {
  return ofRhs ? desc.n : desc.m;
}

int64_t LibraryDesc::numBuffers() const {
  int64_t count = 0;
  for (const Operand *operand : operands())
    if (operand->kind == Operand::Buffer)
      count = std::max(count, operand->index + 1);
  return count;
}

void kerf::rt::checkStages(const Manifest &m) {
  if (static_cast<int64_t>(m.stages.size()) != m.mesh.numStages())
    bad("stages", cat("has ", m.stages.size(), " entries, the mesh has ",
                      m.mesh.numStages(), " stages"));
  std::set<std::string> symbols;
  for (size_t i = 0; i < m.functions.size(); ++i)
    if (!symbols.insert(m.functions[i].symbol).second)
      bad(cat("functions[", i, "]"),
          "symbol \"" + m.functions[i].symbol + "\" is there twice");
  for (size_t s = 0; s < m.stages.size(); ++s) {
    std::string where = cat("stages[", s, "]");
    checkSlots(m.stages[s], where);
    checkInit(m, static_cast<int64_t>(s));
    for (size_t i = 0; i < m.stages[s].instructions.size(); ++i)
      checkInstruction(m, static_cast<int64_t>(s), m.stages[s].instructions[i],
                       cat(where, ".instructions[", i, "]"));
  }
  // checkInstruction has checked that each is in the channel's stage.
  auto sends = traffic(m, Instruction::Send),
       receives = traffic(m, Instruction::Recv);
  for (size_t c = 0; c < m.channels.size(); ++c)
    if (sends[c] != receives[c])
      bad(cat("channels[", c, "]"),
          "sends and receives do not meet in number and micro-batch");
  bool usesWeights = std::any_of(
      m.parameters.begin(), m.parameters.end(),
      [](const Parameter &p) { return p.source == Parameter::Tensor; });
  if (usesWeights && m.weights.empty())
    bad("weights", "missing, but parameters name tensors");
  auto listed = [&](const std::string &name, const char *key) {
    if (!name.empty() &&
        std::none_of(m.files.begin(), m.files.end(),
                     [&](const FileEntry &f) { return f.path == name; }))
      bad(key, "file \"" + name + "\" is not in \"files\"");
  };
  listed(m.program, "program");
  listed(m.weights, "weights");
}
