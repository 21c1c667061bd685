//===- Rank.h - one rank: load, then run the instruction list ---*- C++ -*-===//
//
// Loading resolves everything: parameters, packed library calls, the arena, the
// boxes of inputs and outputs, and which sends must have been received before
// an instruction may write. A step then walks the list and allocates nothing.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_RANK_H
#define KERF_RUNTIME_EXECUTION_RANK_H

#include "../base/Boxes.h"
#include "Context.h"
#include "Parameters.h"

#include <atomic>

namespace kerf::rt {

/// Global tensors of a step, shared by all ranks.
struct StepIo {
  std::vector<const char *> inputs; ///< the caller's
  std::vector<char *> outputs;
};

/// What steps keep in one rank: memory of the mutable parameters that it holds,
/// by name.
using RankState = std::map<std::string, std::shared_ptr<DeviceMemory>>;

class Rank {
public:
  Rank(std::shared_ptr<const Package> package, int64_t rank, int32_t threads,
       World &world, ParameterStore &store,
       std::shared_ptr<PackCache> packCache, const StepIo &io, bool trace);

  ~Rank();

  /// One step, on the thread that constructed the rank. Throws.
  void step(const StepIo &io);

  /// Copies between a parameter of this rank and host memory, while no step
  /// runs. Any thread.
  void readParameter(int64_t index, void *data) const;
  void writeParameter(int64_t index, const void *data);
  /// Between steps, for a device on the host (RankState.cpp): memory as the
  /// rank's own was at first; the same content again; steps work on this.
  RankState makeState();
  void resetState(const RankState &state) const;
  void copyState(const RankState &from, const RankState &to) const;
  void useState(const RankState &state);
  /// Whether a state, of this program or another of the package, fits.
  bool takesState(const RankState &state) const;
  /// What it was loaded with.
  const RankState &ownState() const { return own; }

  /// See Device.
  std::vector<std::string> notes() const { return device->notes(); }
  std::vector<std::string> facts() const { return device->facts(); }
  bool sharesDevice() const { return device->isShared(); }

  const CommCounters &counters() const { return comm->counters(); }
  const Trace &trace() const { return context.trace; }
  /// The work of the last step on an asynchronous device, if a trace was
  /// requested.
  std::vector<DeviceSpan> deviceSpans() const {
    return steps ? steps->spans() : std::vector<DeviceSpan>();
  }
  /// Seconds between the inputs and the outputs of each step on the device.
  const std::vector<double> &deviceSeconds() const { return workSeconds; }
  /// Seconds of each of the last steps in which this rank computes, and in
  /// which it communicates or waits for it.
  struct StepSplit {
    double compute = 0, communication = 0;
  };
  const std::vector<StepSplit> &splits() const { return stepSplits; }
  /// What the first step added to the seconds of each entry of the counters and
  /// of each instruction: it warms up, and is no measure of the others.
  struct FirstStep {
    std::vector<double> collectives, sends, receives, instructions;
  };
  const FirstStep &firstStep() const { return first; }
  /// Steps whose seconds were split; 0 on an asynchronous device.
  int64_t numSplit() const { return splitSteps; }
  int64_t stage() const { return stageIndex; }
  /// Seconds per instruction, summed over steps.
  const std::vector<double> &instructionSeconds() const { return seconds; }
  int64_t arenaBytes() const { return arena->bytes; }
  int64_t workspaceBytes() const {
    return libraryScratch->bytes + (steps ? steps->ownBytes() : 0);
  }
  int64_t parameterBytes() const { return heldBytes; }
  /// This rank's part of a parameter, in its local shape; null if its stage
  /// does not hold it or only library calls do.
  void *parameter(int64_t index) const { return params[index]; }
  bool onHost() const { return device->onHost(); }
  /// The instruction that is being executed, for deadline reports.
  int64_t progress() const { return position.load(std::memory_order_relaxed); }

private:
  struct Prepared {
    const Instruction *instruction;
    BoxCopy copy;                 ///< input, output
    bool zeroFirst = false;       ///< input with padding
    bool skip = false;            ///< output that another rank stores
    int64_t slotBytes = 0;        ///< input, output: local shape; zero: slot
    std::vector<void *> pointers; ///< slots
    std::vector<size_t>
        awaitedSends; ///< ordinals of sends that read what this writes
    size_t sendOrdinal = 0;
    std::unique_ptr<DeviceMemory> staging; ///< input, output; on a GPU
  };

  void load(ParameterStore &store, const StepIo &io, bool trace);
  void loadParameters(ParameterStore &store);
  /// Loaded when a library call packs it, and released after the last call that
  /// does.
  bool isPacked(int64_t parameter) const;
  void computeDerived(ParameterStore &store);
  ParameterStore::Derived runInit();
  /// Prepares the library calls whose parameters are all there.
  void prepareLibrary(ParameterStore &store);
  void prepareInstructions(const StepIo &io);
  /// Places each slot: in the arena, or in an output that it fills.
  std::vector<char *> placeSlots(const StepIo &io);
  int64_t bytesUsed(int64_t slot) const;
  void prepareInput(Prepared &p, const GlobalTensor &tensor);
  void prepareOutput(Prepared &p, const GlobalTensor &tensor);
  void findAwaitedSends();
  void execute(Prepared &p, const StepIo &io);
  /// Runs the function of the instruction; makes the value of its send
  /// available.
  void runFunction(const Prepared &p);
  void startSend(const Prepared &p);
  void awaitSends(const Prepared &p);
  void finishSends();
  void recordSplit();

  // RankSteps.cpp: a device that is given whole steps.
  void reserveMemory();
  void prepareStaging();
  /// Makes all ranks use the same choices of their libraries; all ranks call
  /// it, once for each name.
  void shareChoices(const char *name);
  void enqueue(Prepared &p);
  void enqueueStep();
  void awaitStep();
  void stepOnDevice(const StepIo &io);

  std::shared_ptr<const Package> package;
  const Manifest &manifest;
  int64_t rank, stageIndex;
  const StageDesc &stageDesc;
  std::unique_ptr<Device> device;
  StepDevice *steps = nullptr; ///< the device, if it is given whole steps
  std::unique_ptr<Comm> comm;
  std::vector<std::shared_ptr<void>> owners;
  std::vector<ParameterView> parts; ///< while loading: of all parameters held
  std::vector<void *> params;
  RankState own;
  std::unique_ptr<DeviceMemory> arena, libraryScratch;
  std::vector<Prepared> prepared;
  struct SendState {
    int64_t channel, number;
    bool open;
  };
  std::vector<SendState> sends; ///< by ordinal
  std::vector<double> seconds, workSeconds;
  double sendWaits = 0; ///< seconds in which own sends had to be taken first
  std::vector<StepSplit> stepSplits;
  static constexpr size_t kMaxSplits = 4096;
  size_t nextSplit = 0;
  int64_t splitSteps = 0;
  FirstStep first;
  StepSplit splitSums; ///< of all steps
  int64_t heldBytes = 0, libraryScratchBytes = 0;
  std::atomic<int64_t> position{0};
  kerf_program_context context;
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_RANK_H
