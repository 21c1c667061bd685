//===- Engine.h - streams and events, executed on the host ------*- C++ -*-===//
//
// The heart of the recording driver. What is put on a stream becomes an
// operation that depends on the one before it and on the events that the stream
// was made to wait for. Nothing runs until somebody asks for a result; then
// operations whose dependences are done run one by one, picked at random by a
// seed. So a missing event gives wrong numbers, and it is also found without
// luck: every operation says which bytes it touches, and accesses that conflict
// must be ordered by vector clocks (Races.h).
//
// All state hangs under one lock; operations run under it, too. Operations of
// several members that only make sense together (collectives) run when all of
// them could.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CUDA_RECORDING_ENGINE_H
#define KERF_UNITTESTS_CUDA_RECORDING_ENGINE_H

#include "Races.h"

#include <climits>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace recording {

struct NcclRank; // Nccl.cpp

/// A call of NCCL as part of an operation.
struct NcclCall {
  enum Kind { AllReduce, ReduceScatter, AllGather, Broadcast, Send, Recv };
  Kind kind = AllReduce;
  NcclRank *comm = nullptr;
  const void *src = nullptr;
  void *dst = nullptr;
  size_t count = 0;
  int type = 0, op = 0, peer = 0; ///< peer: also the root
  uint64_t number = 0;            ///< given when the operation is made
};

/// What an operation does; shared by all its repetitions.
struct Work {
  std::string what;
  std::function<void()> run; ///< may be empty
  std::vector<Range> ranges;
  std::vector<NcclCall> calls;
};

struct Stream;

struct Operation {
  std::shared_ptr<const Work> work;
  int lane = 0;
  int pending = 0; ///< dependences that are not done
  bool done = false, cancelled = false;
  VectorClock clock;
  std::vector<std::shared_ptr<Operation>> dependents;
  std::vector<NcclCall> calls; ///< with numbers
  Stream *stream = nullptr;
};
using OperationRef = std::shared_ptr<Operation>;

/// A captured step.
struct Graph {
  struct Node {
    std::shared_ptr<const Work> work;
    int lane = 0;
    std::vector<int> after;
  };
  std::vector<Node> nodes;
  std::map<Stream *, int> lanes, tails; ///< streams that joined the capture
  OperationRef last;                    ///< the end of the launch before
  bool uploaded = false;
};

struct Stream {
  std::string name;
  int device = 0, lane = 0, priority = 0;
  OperationRef tail;
  std::shared_ptr<Graph> capture;
  std::vector<std::string> log;
  bool destroyed = false;
};

struct Event {
  bool timed = true;
  /// When the work in front of it had been done, if it is timed.
  std::shared_ptr<int64_t> nanoseconds = std::make_shared<int64_t>(-1);
  OperationRef operation;
  std::shared_ptr<Graph> capture; ///< recorded while capturing: a node of it
  int node = -1;
  std::string label = "nothing";
};

/// What tests choose; "key=value;key=value" in $KERF_RECORDING or by
/// kerf_recording_configure.
struct Settings {
  uint64_t seed = 1;
  int devices = 8, arch = 90, driverVersion = 13000;
  int64_t memory = int64_t(8) << 30; ///< per device
  std::vector<std::string> names{"Recording GPU"};
  bool refuseCubin = false, refusePtx = false, noCapture = false;
  bool failCapture = false; ///< captures end with an error
  int captureDevice = -1;   ///< the device whose captures fail; -1: all
  std::string dropKind;     ///< "wait" or "record": the call of `drop`..
  int dropDevice = -1, dropIndex = -1;
  int algorithms = 1;     ///< of cuBLASLt; each device likes another one best
  int refuseEpilogue = 0; ///< of cuBLASLt, as it numbers them
  int slowEpilogue = 0;   ///< likewise: takes a quarter of an hour
  int slowDevice = -1;    ///< on this device; -1: on all
  int refuseWindow = -1;  ///< the member to which NCCL gives no window
  int ncclErrorRank = -1; ///< its communicators fail asynchronously
  int maxPitch = INT_MAX; ///< of strided copies
  int ncclVersion = 22809;
  int64_t refuseCount = -1; ///< NCCL refuses calls of so many elements
  bool check = true;        ///< races
};

class Engine {
public:
  static Engine &get();

  std::mutex mutex;
  std::condition_variable changed;
  Settings settings;

  // All of these are called with the lock held.
  void configure(const std::string &text);
  void reset();
  void enqueue(Stream &stream, std::shared_ptr<const Work> work);
  void record(Event &event, Stream &stream);
  /// CUresult.
  int wait(Stream &stream, Event &event);
  int beginCapture(Stream &stream);
  int endCapture(Stream &stream, std::shared_ptr<Graph> &graph);
  void launch(const std::shared_ptr<Graph> &graph, Stream &stream);
  /// Runs one operation, or one set that belongs together; false: none can.
  bool runOne();
  /// Whether it is done; then the calling thread comes after it.
  bool joinHost(const OperationRef &operation);
  void hostAccess(const Range &range);
  void destroyStream(Stream &stream);
  int newLane(const std::string &name);
  void nameLane(int lane, const std::string &name) { laneNames[lane] = name; }
  void forgetRange(uintptr_t begin, uintptr_t end) { races.forget(begin, end); }
  void problem(const std::string &text);
  /// Whether a graph, or a capture, has calls of a communicator; only graphs
  /// that were uploaded, if that is asked.
  bool isCaptured(const NcclRank &comm, bool uploaded = false) const;
  const std::string &report() const { return problems; }
  bool dropped(const char *kind, const Stream &stream);
  /// A line of the dump that belongs to no stream.
  void log(const std::string &line) { lines.push_back(line); }
  std::vector<std::string> lines;

  /// Nanoseconds that work on a device is said to have taken.
  std::map<int, int64_t> delays;
  std::vector<Stream *> streams;
  /// Handles of graphs, instantiated or not, that were not destroyed.
  std::set<std::shared_ptr<Graph> *> graphs;
  /// Blocks that may be touched, by begin.
  std::map<uintptr_t, uintptr_t> blocks;
  /// Operations that are ready for a call of NCCL: see Nccl.cpp.
  bool collect(const OperationRef &first, std::vector<OperationRef> &all);
  void exchange(const std::vector<OperationRef> &all);

private:
  OperationRef make(std::shared_ptr<const Work> work, int lane, Stream &stream,
                    const std::vector<OperationRef> &after);
  void finish(const std::vector<OperationRef> &all);
  bool mayFailCapture(const Stream &stream) const {
    return settings.captureDevice < 0 ||
           settings.captureDevice == stream.device;
  }
  int addNode(Graph &graph, std::shared_ptr<const Work> work, Stream &stream,
              std::vector<int> after);
  void log(Stream &stream, const std::string &line);
  void check(const Operation &operation);

  std::mt19937_64 random{1};
  std::vector<OperationRef> ready;
  std::vector<uint32_t> laneTimes;
  std::vector<std::string> laneNames;
  RaceChecker races;
  std::string problems;
  int numProblems = 0;
  std::map<std::pair<std::string, int>, int> dropCounts;
};

/// Of a clock that goes on steadily.
int64_t nanoseconds();
/// Of Cupti.cpp: work that has run, for those who asked for records.
void noteActivity(const Operation &operation, int64_t begin, int64_t end);

/// Of nccl.cpp: numbers for the calls of a new operation, and forgetting it;
/// what is wrong with launching a graph now for the first time.
void numberCalls(const OperationRef &operation);
void checkFirstLaunch(const Graph &graph);
void resetNccl();

} // namespace recording

#endif // KERF_UNITTESTS_CUDA_RECORDING_ENGINE_H
