//===- MemoryOverTime.cpp - what of a stage's arena is in use, when -------===//
#include "MemoryOverTime.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace kerf;

/// The buffer that a value is, or is a view of.
static Value bufferOf(Value value) {
  while (auto view = value.getDefiningOp<exec::ViewOp>())
    value = view.getSource();
  return value;
}

/// Bytes in use at each place of a list: buffers of `isOf` from the first place
/// that names them to the last.
template <typename Op>
static std::vector<int64_t>
bytesInUse(Block &block, llvm::function_ref<bool(Operation &)> isPlace) {
  llvm::MapVector<Value, std::pair<size_t, size_t>> lives;
  size_t places = 0;
  for (Operation &op : block) {
    if (!isPlace(op))
      continue;
    for (Value operand : op.getOperands())
      if (Value buffer = bufferOf(operand); buffer.getDefiningOp<Op>()) {
        auto [life, isFirst] = lives.insert({buffer, {places, places}});
        life->second.second = places;
      }
    ++places;
  }
  std::vector<int64_t> changes(places + 1);
  for (const auto &[buffer, life] : lives) {
    int64_t bytes = exec::sizeBytes(cast<MemRefType>(buffer.getType()));
    changes[life.first] += bytes;
    changes[life.second + 1] -= bytes;
  }
  for (size_t i = 1; i < changes.size(); ++i)
    changes[i] += changes[i - 1];
  changes.pop_back();
  return changes;
}

llvm::json::Object kerf::memoryOverTime(exec::StageOp stage) {
  Block &steps = stage.getBody().front();
  auto isStep = [](Operation &op) { return !isa<exec::SlotOp>(op); };
  std::vector<int64_t> slots = bytesInUse<exec::SlotOp>(steps, isStep);
  llvm::StringMap<std::vector<int64_t>> scratch; // by function
  std::vector<int64_t> all;
  llvm::json::Array runs;
  std::vector<std::tuple<StringRef, int64_t, size_t>> begins;
  size_t at = 0;
  for (Operation &op : steps) {
    if (!isStep(op))
      continue;
    int64_t held = slots[at++];
    auto run = dyn_cast<exec::RunOp>(op);
    if (!run) {
      all.push_back(held);
      continue;
    }
    auto function = SymbolTable::lookupNearestSymbolFrom<exec::FuncOp>(
        run, run.getCalleeAttr());
    auto [known, isNew] = scratch.try_emplace(run.getCallee());
    if (isNew) {
      known->second = bytesInUse<exec::ArenaOp>(
          function.getBody().front(), [](Operation &call) {
            return !isa<exec::ArenaOp, exec::ViewOp, exec::ReturnOp>(call) &&
                   call.getNumOperands() > 0;
          });
      if (known->second.empty())
        known->second.push_back(0);
    }
    begins.emplace_back(exec::stringifyPhase(function.getPhase()),
                        int64_t(run.getMicroBatch()), all.size());
    for (int64_t bytes : known->second)
      all.push_back(held + bytes);
  }
  constexpr size_t kMost = 200;
  size_t perNumber = (all.size() + kMost - 1) / kMost;
  llvm::json::Array bytes;
  for (size_t i = 0; i < all.size(); i += perNumber)
    bytes.push_back(*std::max_element(
        all.begin() + i, all.begin() + std::min(i + perNumber, all.size())));
  for (const auto &[phase, microBatch, begin] : begins)
    runs.push_back(
        llvm::json::Object{{"phase", phase},
                           {"micro_batch", microBatch},
                           {"begin", static_cast<int64_t>(begin / perNumber)}});
  return llvm::json::Object{{"bytes", std::move(bytes)},
                            {"calls", static_cast<int64_t>(all.size())},
                            {"runs", std::move(runs)}};
}
