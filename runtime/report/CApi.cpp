//===- CApi.cpp - the runtime's C ABI -------------------------------------===//
//
// Thin: arguments are checked, exceptions become statuses, handles hold shared
// pointers.
//
//===----------------------------------------------------------------------===//
#include "../base/Options.h"
#include "Statistics.h"
#include "kerf/rt/program.h"
#include "kerf/rt/runtime.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <set>

using namespace kerf::rt;

struct kerf_package {
  std::shared_ptr<Package> package;
};
struct kerf_session {
  std::unique_ptr<Session> session;
};
struct kerf_state {
  std::shared_ptr<SessionState> state;
};
struct kerf_job {
  std::shared_ptr<Job> job;
};

namespace {
void require(bool condition, const char *what) {
  if (!condition)
    throw Error(KERF_INVALID_ARGUMENT, what);
}

kerf_status_t describeTensor(const kerf_package_t *package, int32_t index,
                             std::vector<GlobalTensor> Manifest::*list,
                             kerf_tensor_info_t *info) {
  return guard([&] {
    require(package && info, "a handle is null");
    const auto &tensors = package->package->manifest.*list;
    require(index >= 0 && static_cast<size_t>(index) < tensors.size(),
            "tensor index out of range");
    const GlobalTensor &t = tensors[index];
    *info = {t.name.c_str(),
             t.dtype,
             static_cast<int32_t>(t.globalShape.size()),
             t.globalShape.data(),
             static_cast<size_t>(numBytes(t.globalShape, t.dtype)),
             t.rangeLow,
             t.rangeHigh};
  });
}

kerf_tensor_info_t describe(const std::string &name, kerf_dtype_t dtype,
                            const Shape &shape) {
  return {name.c_str(),
          dtype,
          static_cast<int32_t>(shape.size()),
          shape.data(),
          static_cast<size_t>(numBytes(shape, dtype)),
          0,
          2};
}

char *duplicate(const std::string &text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}
// Logs what ranks found, and warnings; each line once.
void logDevices(const Session &session, kerf_log_sink_t log, void *user) {
  std::set<std::string> said;
  for (int64_t r = 0; r < session.spec().mesh.numRanks(); ++r) {
    const Rank *rank = session.localRank(r);
    if (!rank) // in another process
      continue;
    for (const std::string &note : rank->notes())
      if (said.insert(note).second)
        log(user, KERF_LOG_WARNING, note.c_str());
    for (const std::string &fact : rank->facts())
      if (said.insert(fact).second)
        log(user, KERF_LOG_INFO, fact.c_str());
  }
}
} // namespace

extern "C" {

kerf_status_t kerf_package_open(const char *path,
                                const kerf_package_options_t *options,
                                kerf_package_t **package) {
  return guard([&] {
    require(path && package, "path or package is null");
    kerf_package_options_t full = completed(options);
    auto opened = Package::open(path, full.skip_hashes != 0);
    if (full.log)
      full.log(
          full.log_user, KERF_LOG_INFO,
          cat("opened ", path, ": ", opened->manifest.mesh.numRanks(),
              opened->manifest.mesh.numRanks() == 1 ? " rank, " : " ranks, ",
              opened->manifest.parameters.size(),
              opened->manifest.parameters.size() == 1 ? " parameter"
                                                      : " parameters")
              .c_str());
    *package = new kerf_package{std::move(opened)};
  });
}

void kerf_package_close(kerf_package_t *package) { delete package; }

int32_t kerf_package_num_ranks(const kerf_package_t *package) {
  return package
             ? static_cast<int32_t>(package->package->manifest.mesh.numRanks())
             : 0;
}
int32_t kerf_package_num_inputs(const kerf_package_t *package) {
  return package
             ? static_cast<int32_t>(package->package->manifest.inputs.size())
             : 0;
}
int32_t kerf_package_num_outputs(const kerf_package_t *package) {
  return package ? static_cast<int32_t>(
                       modelOutputs(package->package->manifest).size())
                 : 0;
}
kerf_status_t kerf_package_input(const kerf_package_t *package, int32_t index,
                                 kerf_tensor_info_t *info) {
  return describeTensor(package, index, &Manifest::inputs, info);
}
kerf_status_t kerf_package_output(const kerf_package_t *package, int32_t index,
                                  kerf_tensor_info_t *info) {
  // One that is the length of others is not the caller's.
  if (package) {
    std::vector<int64_t> numbers = modelOutputs(package->package->manifest);
    bool isKnown = index >= 0 && static_cast<size_t>(index) < numbers.size();
    index = isKnown ? static_cast<int32_t>(numbers[index]) : -1;
  }
  return describeTensor(package, index, &Manifest::outputs, info);
}

int32_t kerf_package_output_is_bounded(const kerf_package_t *package,
                                       int32_t index, int32_t dim) {
  if (!package)
    return 0;
  const Manifest &m = package->package->manifest;
  std::vector<int64_t> numbers = modelOutputs(m);
  if (index < 0 || static_cast<size_t>(index) >= numbers.size())
    return 0;
  const auto &bounded = m.outputs[numbers[index]].bounded;
  return std::any_of(
      bounded.begin(), bounded.end(),
      [&](const GlobalTensor::Bound &b) { return b.dim == dim; });
}

int32_t kerf_package_num_parameters(const kerf_package_t *package) {
  return package ? static_cast<int32_t>(
                       package->package->manifest.parameters.size())
                 : 0;
}
kerf_status_t kerf_package_parameter(const kerf_package_t *package,
                                     int32_t index,
                                     kerf_parameter_info_t *info) {
  return guard([&] {
    require(package && info, "a handle is null");
    const Manifest &m = package->package->manifest;
    require(index >= 0 && static_cast<size_t>(index) < m.parameters.size(),
            "parameter index out of range");
    const Parameter &p = m.parameters[index];
    const StoredTensor &stored = package->package->stored[index];
    *info = {};
    info->tensor = describe(p.name, p.dtype, p.globalShape);
    info->is_mutable = p.isMutable;
    if (!stored.data)
      return;
    info->stored = describe(p.tensor, p.dtype, stored.shape);
    info->view_starts = p.hasView ? p.viewStarts.data() : nullptr;
    if (p.source == Parameter::External) {
      info->file = m.externalFiles[p.externalFile].path.c_str();
      info->file_offset = static_cast<uint64_t>(p.externalOffset);
    }
  });
}

kerf_status_t kerf_session_create(kerf_package_t *package,
                                  const kerf_session_options_t *options,
                                  kerf_session_t **session) {
  return guard([&] {
    require(package && session, "package or session is null");
    kerf_session_options_t full = completed(options);
    require(full.threads >= 0 && full.threads <= 4096,
            "threads is not in [0, 4096]");
    require(full.deadline_seconds >= 0, "the deadline is negative");
    SessionOptions inner;
    inner.threads = full.threads;
    if (full.deadline_seconds > 0)
      inner.deadlineSeconds = std::min(full.deadline_seconds, 1e6);
    inner.trace = full.trace != 0;
    if (full.inject)
      inner.injection = parseInjection(full.inject);
    if (full.job)
      inner.job = full.job->job;
    if (full.stored_tensor)
      for (int32_t i = 0; i < kerf_package_num_parameters(package); ++i)
        inner.stored.push_back(
            static_cast<const char *>(full.stored_tensor(full.stored_user, i)));
    auto made = std::make_unique<Session>(package->package, inner);
    if (full.log)
      full.log(
          full.log_user, KERF_LOG_INFO,
          cat("loaded ", made->spec().mesh.numRanks(),
              made->spec().mesh.numRanks() == 1 ? " rank of " : " ranks of ",
              made->threads(),
              made->threads() == 1 ? " thread in " : " threads in ",
              made->loadSeconds(), " s")
              .c_str());
    if (full.log)
      logDevices(*made, full.log, full.log_user);
    *session = new kerf_session{std::move(made)};
  });
}

void kerf_session_destroy(kerf_session_t *session) { delete session; }

kerf_status_t kerf_session_set_input(kerf_session_t *session, int32_t index,
                                     const void *data, size_t bytes) {
  return guard([&] {
    require(session, "session is null");
    session->session->setInput(index, data, bytes);
  });
}

kerf_status_t kerf_session_run(kerf_session_t *session) {
  return guard([&] {
    require(session, "session is null");
    session->session->run();
  });
}

kerf_status_t kerf_session_get_output(kerf_session_t *session, int32_t index,
                                      const void **data, size_t *bytes) {
  return guard([&] {
    require(session && data && bytes, "a pointer is null");
    auto [where, size] = session->session->output(index);
    *data = where;
    *bytes = size;
  });
}

kerf_status_t kerf_session_output_shape(kerf_session_t *session, int32_t index,
                                        int64_t *shape, int32_t rank) {
  return guard([&] {
    require(session && (shape || !rank), "a pointer is null");
    Shape found = session->session->outputShape(index);
    require(rank == static_cast<int32_t>(found.size()),
            "rank is not that of the output");
    std::copy(found.begin(), found.end(), shape);
  });
}

kerf_status_t kerf_session_get_parameter(kerf_session_t *session, int32_t index,
                                         void *data, size_t bytes) {
  return guard([&] {
    require(session && (data || !bytes), "a pointer is null");
    session->session->getParameter(index, data, bytes);
  });
}

kerf_status_t kerf_session_set_parameter(kerf_session_t *session, int32_t index,
                                         const void *data, size_t bytes) {
  return guard([&] {
    require(session && (data || !bytes), "a pointer is null");
    session->session->setParameter(index, data, bytes);
  });
}

kerf_status_t kerf_session_statistics(kerf_session_t *session, char **json) {
  return guard([&] {
    require(session && json, "a pointer is null");
    *json = duplicate(statisticsJson(*session->session));
  });
}

kerf_status_t kerf_session_trace(kerf_session_t *session, char **json) {
  return guard([&] {
    require(session && json, "a pointer is null");
    *json = duplicate(traceJson(*session->session));
  });
}

kerf_status_t kerf_job_join(const kerf_job_options_t *options,
                            kerf_job_t **job) {
  return guard([&] {
    require(job, "job is null");
    kerf_job_options_t full = completed(options);
    require(full.deadline_seconds >= 0, "the deadline is negative");
    JobEnvironment environment = jobEnvironment();
    if (environment.size == 1) {
      *job = nullptr;
      return;
    }
    auto joined = joinJob(
        environment, full.deadline_seconds > 0 ? full.deadline_seconds : 30);
    joined->setSignals(full.signals);
    *job = new kerf_job{std::move(joined)};
  });
}
int32_t kerf_job_rank(const kerf_job_t *job) {
  return job ? static_cast<int32_t>(job->job->rank()) : 0;
}
int32_t kerf_job_size(const kerf_job_t *job) {
  return job ? static_cast<int32_t>(job->job->size()) : 1;
}
kerf_status_t kerf_job_broadcast(kerf_job_t *job, void *data, size_t bytes) {
  return guard([&] {
    require(job && (data || !bytes), "a pointer is null");
    job->job->broadcast(data, bytes);
  });
}
void kerf_job_fail(kerf_job_t *job, kerf_status_t status) {
  if (job && status && status->error.code != KERF_CLOSED)
    job->job->fail(status->error);
}
int32_t kerf_job_await_report(kerf_job_t *job) {
  return job ? job->job->awaitTurnToReport() : -1;
}
kerf_status_t kerf_job_leave(kerf_job_t *job, int32_t *exit_code) {
  return guard([&] {
    require(job && exit_code, "a pointer is null");
    if (job->job->leads())
      job->job->close(*exit_code);
    else
      *exit_code = job->job->awaitClose();
    job->job->leave();
  });
}
kerf_status_t kerf_session_broadcast(kerf_session_t *session, void *data,
                                     size_t bytes) {
  return guard([&] {
    require(session && (data || !bytes), "a pointer is null");
    session->session->share(data, bytes);
  });
}
void kerf_job_free(kerf_job_t *job) { delete job; }

kerf_status_t kerf_state_create(kerf_session_t *session, kerf_state_t **state) {
  return guard([&] {
    require(session && state, "a pointer is null");
    *state = new kerf_state{session->session->makeState()};
  });
}
kerf_status_t kerf_state_fork(kerf_session_t *session,
                              const kerf_state_t *state, kerf_state_t **copy) {
  return guard([&] {
    require(session && copy, "a pointer is null");
    *copy = new kerf_state{
        session->session->forkState(state ? state->state.get() : nullptr)};
  });
}
kerf_status_t kerf_state_reset(kerf_session_t *session, kerf_state_t *state) {
  return guard([&] {
    require(session, "session is null");
    session->session->resetState(state ? state->state.get() : nullptr);
  });
}
kerf_status_t kerf_session_use_state(kerf_session_t *session,
                                     kerf_state_t *state) {
  return guard([&] {
    require(session, "session is null");
    session->session->useState(state ? state->state : nullptr);
  });
}
void kerf_state_free(kerf_state_t *state) { delete state; }

/// A program of a package beside its own.
static kerf_package *openProgram(const Package &package,
                                 const std::string &name,
                                 const kerf_package_options_t *options) {
  return new kerf_package{
      Package::open(package.path, completed(options).skip_hashes != 0, name)};
}

kerf_status_t kerf_package_open_program(const kerf_package_t *package,
                                        const char *name,
                                        const kerf_package_options_t *options,
                                        kerf_package_t **program) {
  return guard([&] {
    require(package && name && program, "a pointer is null");
    *program = package->package->hasProgram(name)
                   ? openProgram(*package->package, name, options)
                   : nullptr;
  });
}

int32_t kerf_package_num_open_dims(const kerf_package_t *package) {
  return package ? static_cast<int32_t>(package->package->sizes.dims.size())
                 : 0;
}
kerf_status_t kerf_package_open_dim(const kerf_package_t *package,
                                    int32_t index, kerf_open_dim_t *dim) {
  return guard([&] {
    require(package && dim, "a pointer is null");
    const auto &dims = package->package->sizes.dims;
    require(index >= 0 && static_cast<size_t>(index) < dims.size(),
            "dimension index out of range");
    const OpenDim &own = dims[static_cast<size_t>(index)];
    *dim = {own.name.c_str(),
            own.inputAxes.data(),
            own.outputAxes.data(),
            own.sizes.data(),
            static_cast<int32_t>(own.sizes.size()),
            own.padded.data(),
            static_cast<int32_t>(own.padded.size())};
  });
}
kerf_status_t kerf_package_open_sizes(const kerf_package_t *package,
                                      const int64_t *sizes,
                                      const kerf_package_options_t *options,
                                      kerf_package_t **program) {
  return guard([&] {
    require(package && sizes && program, "a pointer is null");
    const Package &opened = *package->package;
    require(!opened.sizes.dims.empty(), "the package has one program");
    const Sizes::Program &fitting =
        opened.sizes.programFor({sizes, sizes + opened.sizes.dims.size()});
    *program = fitting.name.empty()
                   ? new kerf_package{package->package}
                   : openProgram(opened, fitting.name, options);
  });
}

void kerf_string_free(char *string) { std::free(string); }

const char *kerf_runtime_version(void) {
  static const std::string text =
      cat(KERF_VERSION " (program abi ", KERF_PROGRAM_ABI_VERSION, ")");
  return text.c_str();
}

} // extern "C"
