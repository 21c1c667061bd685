//===- HoldSends.cpp - how long what is sent must stay --------------------===//
//
// A send does not wait, but an instruction that overwrites its slot must wait
// until the receiver has taken it. That can deadlock: in 1F1B stage s sends a
// gradient back and needs its slot for the next activation, while stage s-1
// sends that activation and needs its slot for the gradient; each waits for the
// other. So a slot is not overwritten before the sender *knows* that the value
// was taken, from a message that the receiver sent later:
//
//   stage 0:  send h ... recv d          h is held until d has come, because
//   stage 1:  recv h ... send d          stage 1 had taken h when it sent d
//
// Vector clocks find that message: clock[i][t] is the last instruction of stage
// t that is known to be done when instruction i is. If no message comes back,
// the slot is held to the end of the step. O(instructions * stages).
//
//===----------------------------------------------------------------------===//
#include "kerf/Partition/OpSharding.h"
#include "kerf/Partition/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>
#include <map>

namespace kerf {
#define GEN_PASS_DEF_HOLDSENDS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

namespace {

struct StageList {
  SmallVector<Operation *> ops;
  size_t next = 0;
  /// By instruction and stage.
  std::vector<std::vector<int64_t>> clocks;
};

struct Message {
  SendOp op;
  size_t from, sentAt, to = 0;
  int64_t takenAt = -1;
};

} // namespace

static void holdSends(ModuleOp module) {
  std::vector<StageList> stages;
  for (auto schedule : module.getOps<ScheduleOp>()) {
    stages.emplace_back();
    for (Operation &op : schedule.getBody().front())
      stages.back().ops.push_back(&op);
  }
  std::vector<Message> messages;
  std::map<uint64_t, std::deque<size_t>> underWay;
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      StageList &list = stages[stage];
      for (; list.next < list.ops.size(); ++list.next, moved = true) {
        Operation *op = list.ops[list.next];
        std::vector<int64_t> clock =
            list.clocks.empty() ? std::vector<int64_t>(stages.size(), -1)
                                : list.clocks.back();
        clock[stage] = static_cast<int64_t>(list.next);
        if (auto recv = dyn_cast<RecvOp>(op)) {
          auto &queue = underWay[recv.getChannel()];
          if (queue.empty())
            break;
          Message &message = messages[queue.front()];
          queue.pop_front();
          message.to = stage;
          message.takenAt = clock[stage];
          const auto &sent = stages[message.from].clocks[message.sentAt];
          for (size_t t = 0; t < clock.size(); ++t)
            clock[t] = std::max(clock[t], sent[t]);
        }
        list.clocks.push_back(std::move(clock));
        if (auto send = dyn_cast<SendOp>(op)) {
          underWay[send.getChannel()].push_back(messages.size());
          messages.push_back({send, stage, list.next});
        }
      }
    }
  }
  for (const Message &message : messages) {
    const StageList &list = stages[message.from];
    // Clocks only grow: find the first that knows of the receive.
    auto first = std::partition_point(
        list.clocks.begin() + message.sentAt, list.clocks.end(),
        [&](const std::vector<int64_t> &clock) {
          return message.takenAt < 0 || clock[message.to] < message.takenAt;
        });
    int64_t until =
        std::min<int64_t>(first - list.clocks.begin(), list.ops.size() - 1);
    SendOp(message.op).setHeldUntil(until);
  }
}

namespace {
struct HoldSends : kerf::impl::HoldSendsBase<HoldSends> {
  void runOnOperation() override {
    // Inference only hands on: whoever waits, waits for a later stage, and for
    // an earlier micro-batch than its own next.
    bool goesBack = llvm::any_of(
        getOperation().getOps<func::FuncOp>(), [](func::FuncOp function) {
          return getPart(function) && !function.isExternal() &&
                 getPhase(function) != Phase::Forward;
        });
    if (goesBack)
      holdSends(getOperation());
  }
};
} // namespace
