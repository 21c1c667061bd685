//===- Answers.cpp - how a recording driver's work is done ----------------===//
//
// Work may run long after it was enqueued, so everything it needs is copied or
// shared.
//
//===----------------------------------------------------------------------===//
#include "Answers.h"

#include "../../../base/Types.h"
#include "../../../package/AttentionOperands.h"
#include "../../TouchedRanges.h"
#include "../../cpu/Epilogue.h"
#include "../../cpu/WidenedCall.h"

#include <atomic>

using namespace kerf::rt;

namespace {

struct HostKernel {
  kerf_kernel_t kernel;
  std::vector<void *> buffers;
  std::vector<int64_t> scalars;
  int64_t count;
  // The table and context that generated code gets, to report failures.
  kerf_program_api table{};
  FailureRecord *record;
  uint32_t index;

  static void run(void *user) {
    auto &self = *static_cast<HostKernel *>(user);
    self.kernel(self.buffers.data(), self.scalars.data(), 0, self.count);
  }
  static void destroy(void *user) { delete static_cast<HostKernel *>(user); }
};

int32_t noteFailure(kerf_program_context *ctx, int32_t code, const char *,
                    int64_t detail) {
  auto &self = *reinterpret_cast<HostKernel *>(ctx);
  uint32_t expected = 0;
  auto *state = reinterpret_cast<std::atomic<uint32_t> *>(&self.record->state);
  if (state->compare_exchange_strong(expected, 1)) {
    self.record->code = static_cast<uint32_t>(code);
    self.record->kernel = self.index;
    self.record->detail = detail;
  }
  return 1;
}

int32_t noteIndexFailure(kerf_program_context *ctx, const char *node,
                         int64_t index, int64_t) {
  return noteFailure(ctx, KERF_FAIL_INDEX_OUT_OF_RANGE, node, index);
}

class AnsweredCall : public LibraryCall {
public:
  AnsweredCall(const Driver &driver, cu::Stream stream, Device &cpu,
               const LibraryDesc &desc, int64_t index,
               const std::function<ParameterView(int64_t)> &parameter)
      : driver(driver), stream(stream), desc(desc),
        name(cat("library ", index, " ", desc.kindName())) {
    call = desc.dtype == KERF_F16 && !desc.isAttention()
               ? makeWidenedCall(desc, cpu, index, parameter)
               : cpu.prepare(desc, index, parameter);
    // Calls may pack parameters when they are prepared.
    scratch = std::make_shared<std::vector<char>>(
        static_cast<size_t>(call->scratchBytes()) + KERF_BUFFER_ALIGNMENT);
  }
  int64_t scratchBytes() const override { return 0; }

  void run(void *const *buffers, void *) override {
    std::vector<RecordedRange> touched;
    for (const TouchedRange &t : operands)
      touched.push_back({static_cast<const char *>(buffers[t.buffer]) + t.begin,
                         t.bytes, !t.writes || t.reads, t.writes});
    auto *job = new Job{call, scratch, {buffers, buffers + desc.numBuffers()}};
    driver.recording.enqueue(stream, name.c_str(),
                             {Job::run, Job::destroy, job}, touched.data(),
                             static_cast<int>(touched.size()));
  }

private:
  struct Job {
    std::shared_ptr<LibraryCall> call;
    std::shared_ptr<std::vector<char>> scratch;
    std::vector<void *> buffers;
    static void run(void *user) {
      auto &job = *static_cast<Job *>(user);
      auto address = reinterpret_cast<uintptr_t>(job.scratch->data());
      address = (address + KERF_BUFFER_ALIGNMENT - 1) / KERF_BUFFER_ALIGNMENT *
                KERF_BUFFER_ALIGNMENT;
      job.call->run(job.buffers.data(), reinterpret_cast<void *>(address));
    }
    static void destroy(void *user) { delete static_cast<Job *>(user); }
  };

  const Driver &driver;
  cu::Stream stream;
  LibraryDesc desc;
  std::string name;
  std::shared_ptr<LibraryCall> call;
  std::shared_ptr<std::vector<char>> scratch;
  std::vector<TouchedRange> operands = touchedRanges(desc);
};
} // namespace

void kerf::rt::bindHostKernel(const Driver &driver, const KernelEntry &entry,
                              int32_t index, kerf_kernel_t kernel,
                              void *const *buffers, int32_t numBuffers,
                              const int64_t *scalars, int64_t count,
                              FailureRecord *record) {
  const CudaKernel &cuda = entry.cuda;
  std::vector<RecordedRange> touched;
  for (size_t i = 0; i < cuda.access.size(); ++i)
    touched.push_back({buffers[i], cuda.access[i].bytes, cuda.access[i].reads,
                       cuda.access[i].writes});
  RecordedWork work{};
  if (kernel) {
    auto *job = new HostKernel;
    job->kernel = kernel;
    job->buffers.assign(buffers, buffers + numBuffers);
    job->scalars.assign(scalars, scalars + cuda.scalars);
    job->count = count;
    job->record = record;
    job->index = static_cast<uint32_t>(index);
    if (cuda.fails && numBuffers >= cuda.buffers + 2) {
      job->table.abi_version = KERF_PROGRAM_ABI_VERSION;
      job->table.struct_size = sizeof(kerf_program_api);
      job->table.fail = noteFailure;
      job->table.fail_index = noteIndexFailure;
      job->buffers[cuda.buffers] = &job->table;
      job->buffers[cuda.buffers + 1] = job;
    }
    work = {HostKernel::run, HostKernel::destroy, job};
  }
  driver.recording.bind(cuda.entry.c_str(), work, touched.data(),
                        static_cast<int>(touched.size()),
                        static_cast<int>(touched.size()));
}

namespace {
struct HostBatch {
  struct Member {
    kerf_kernel_t kernel;
    int64_t buffers, elements, count;
  };
  std::vector<Member> members;
  const uint64_t *table;

  static void run(void *user) {
    auto &self = *static_cast<HostBatch *>(user);
    const uint64_t *row = self.table + self.members.size() + 1;
    for (const Member &member : self.members) {
      std::vector<void *> buffers;
      for (int64_t i = 0; i < member.buffers; ++i)
        buffers.push_back(reinterpret_cast<void *>(*row++));
      // A wrong number of elements in the table leaves the tensor unchanged,
      // which a test notices.
      if (*row++ == static_cast<uint64_t>(member.elements) && member.kernel)
        member.kernel(buffers.data(), nullptr, 0, member.count);
    }
  }
  static void destroy(void *user) { delete static_cast<HostBatch *>(user); }
};
} // namespace

void kerf::rt::bindHostBatch(const Driver &driver, const Manifest &manifest,
                             const std::vector<KernelLaunch> &launches,
                             const void *table, int64_t words) {
  std::vector<RecordedRange> touched = {{table, words * 8, true, false}};
  auto *job = new HostBatch;
  job->table = static_cast<const uint64_t *>(table);
  for (const KernelLaunch &launch : launches) {
    const CudaKernel &k = manifest.kernels[launch.kernel].cuda;
    for (int64_t i = 0; i < k.buffers; ++i)
      touched.push_back({launch.buffers[i], k.access[i].bytes,
                         k.access[i].reads, k.access[i].writes});
    job->members.push_back(
        {launch.host, k.buffers, k.batch.elements, launch.count});
  }
  const CudaKernel &first = manifest.kernels[launches[0].kernel].cuda;
  driver.recording.bind(first.batch.entry.c_str(),
                        {HostBatch::run, HostBatch::destroy, job},
                        touched.data(), static_cast<int>(touched.size()), 1);
}

namespace {
struct HostGradient {
  LibraryDesc desc;
  std::vector<void *> buffers;
  static void run(void *user) {
    auto &self = *static_cast<HostGradient *>(user);
    applyGradient(self.desc, self.buffers.data());
  }
  static void destroy(void *user) { delete static_cast<HostGradient *>(user); }
};
} // namespace

void kerf::rt::bindHostGradient(const Driver &driver, const LibraryDesc &desc,
                                void *const *buffers) {
  const CudaKernel &k = desc.cuda;
  std::vector<RecordedRange> touched;
  for (size_t i = 0; i < k.access.size(); ++i)
    touched.push_back({buffers[k.arguments.empty() ? static_cast<int64_t>(i)
                                                   : k.arguments[i]],
                       k.access[i].bytes, k.access[i].reads,
                       k.access[i].writes});
  auto *job = new HostGradient{desc, {buffers, buffers + desc.numBuffers()}};
  driver.recording.bind(k.entry.c_str(),
                        {HostGradient::run, HostGradient::destroy, job},
                        touched.data(), static_cast<int>(touched.size()),
                        static_cast<int>(touched.size()));
}

std::unique_ptr<LibraryCall> kerf::rt::makeAnsweredCall(
    const Driver &driver, cu::Stream stream, Device &cpu,
    const LibraryDesc &desc, int64_t index,
    const std::function<ParameterView(int64_t)> &parameter) {
  return std::make_unique<AnsweredCall>(driver, stream, cpu, desc, index,
                                        parameter);
}
