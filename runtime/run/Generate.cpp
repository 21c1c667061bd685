//===- Generate.cpp - feed a prompt, choose ids ---------------------------===//
//
// The prompt goes through the decoder id by id. In a job every process makes
// the same steps, and rank 0, which has the logits, tells the others what it
// chose.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/generate.h"

#include "../base/Seconds.h"
#include "../base/Types.h"
#include "kerf/Format/State.h"
#include "kerf/rt/job.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

using namespace kerf;
using namespace kerf::rt;

namespace {
/// Ends the command with an exit code; the message was printed.
struct Exit {
  int code;
};

struct PackageCloser {
  void operator()(kerf_package_t *p) const { kerf_package_close(p); }
};
struct SessionCloser {
  void operator()(kerf_session_t *s) const { kerf_session_destroy(s); }
};

class Generator {
public:
  Generator(const GenerateOptions &options, JobScope &job, std::FILE *out,
            const Messages &err)
      : options(options), job(job), out(out), err(err) {}

  void run() {
    preferShortSpins();
    open();
    checkRequest();
    start();
    generate();
    report();
  }

private:
  void check(kerf_status_t status) {
    if (status)
      throw Exit{job.report(status, options.named(), err)};
  }
  [[noreturn]] void usage(const std::string &message) {
    if (job.leads()) // the others are ended by it
      say(err, "error: " + printable(message) + "\n");
    throw Exit{2};
  }

  void open() {
    kerf_package_options_t open = {};
    open.struct_size = sizeof(open);
    open.skip_hashes = options.skipHashes;
    kerf_package_t *raw = nullptr;
    check(kerf_package_open(options.package.c_str(), &open, &raw));
    package.reset(raw);
    if (job && kerf_package_num_ranks(raw) != job.size())
      usage(cat(options.named(), ": has ", kerf_package_num_ranks(raw),
                " ranks, the job has ", job.size(), " processes"));
    for (int32_t i = 0, n = kerf_package_num_inputs(raw); i < n; ++i)
      takeInput(i);
    if (ids < 0 || position < 0)
      usage(options.named() +
            ": is no program that generates, which takes input_ids and " +
            kStatePosition + " (option cache-length of compile makes one)");
    for (int32_t i = 0, n = kerf_package_num_outputs(raw); i < n; ++i) {
      kerf_tensor_info_t info;
      check(kerf_package_output(raw, i, &info));
      if (std::strcmp(info.name, "logits") == 0 || (n == 1 && info.rank > 0)) {
        logits = i;
        vocabulary = info.rank > 0 ? info.shape[info.rank - 1] : 0;
        if (info.dtype != KERF_F32 ||
            info.bytes != static_cast<size_t>(vocabulary) * sizeof(float))
          usage(cat(options.named(), ": output \"", info.name,
                    "\" is no f32 of one position's logits"));
      }
    }
    if (logits < 0 || vocabulary < 1)
      usage(options.named() + ": has no output \"logits\"");
  }

  void takeInput(int32_t index) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package.get(), index, &info));
    int32_t &place = std::strcmp(info.name, "input_ids") == 0      ? ids
                     : std::strcmp(info.name, kStatePosition) == 0 ? position
                                                                   : unknown;
    if (&place == &unknown)
      usage(cat(options.named(), ": takes the input \"", info.name,
                "\" in each step, of which generation knows nothing"));
    if ((info.dtype != KERF_I64 && info.dtype != KERF_I32) ||
        info.bytes != kerf_dtype_size(info.dtype))
      usage(cat(options.named(), ": input \"", info.name,
                "\" is of more than one id, expected steps of one token of "
                "one sample"));
    place = index;
    (&place == &ids ? idBytes : positionBytes) = info.bytes;
    if (&place == &position)
      length = info.range_high;
  }

  void checkRequest() {
    if (options.prompt.empty())
      usage("option prompt-ids: expected at least one id");
    for (int64_t id : options.prompt)
      if (id < 0 || id >= vocabulary)
        usage(cat("option prompt-ids: ", id, " is not in the vocabulary of ",
                  options.named(), ", 0 to ", vocabulary - 1));
    for (int64_t id : options.endIds)
      if (id < 0 || id >= vocabulary)
        usage(cat("option eos: ", id, " is not in the vocabulary of ",
                  options.named(), ", 0 to ", vocabulary - 1));
    auto given = static_cast<int64_t>(options.prompt.size());
    if (given > length)
      usage(cat("option prompt-ids: ", given, " ids, but the cache of ",
                options.named(), " has ", length, " positions"));
    // The last id is not fed.
    if (options.tokens - 1 > length - given)
      usage(cat("option tokens: ", options.tokens, " behind a prompt of ",
                given, " need ", given, " + ", options.tokens - 1,
                " positions, but the cache of ", options.named(), " has ",
                length, " (option cache-length)"));
  }

  void start() {
    kerf_session_options_t o = {};
    o.struct_size = sizeof(o);
    o.threads = options.threads;
    o.deadline_seconds = options.timeoutSeconds;
    o.inject = options.inject.empty() ? nullptr : options.inject.c_str();
    o.job = job.get();
    kerf_session_t *raw = nullptr;
    check(kerf_session_create(package.get(), &o, &raw));
    session.reset(raw);
    // Little endian: an id of 32 bits is the first half of one of 64.
    check(kerf_session_set_input(raw, ids, &id, idBytes));
    check(kerf_session_set_input(raw, position, &filled, positionBytes));
  }

  /// Feeds an id; its logits are the session's output.
  void step(int64_t next) {
    id = next;
    check(kerf_session_run(session.get()));
    ++filled;
  }

  int64_t choose(double draw) {
    int64_t chosen = -1;
    if (job.leads()) {
      const void *data;
      size_t bytes;
      check(kerf_session_get_output(session.get(), logits, &data, &bytes));
      chosen = chooseToken(static_cast<const float *>(data), vocabulary,
                           options.sampling, draw);
    }
    if (job)
      check(kerf_session_broadcast(session.get(), &chosen, sizeof(chosen)));
    if (chosen < 0)
      throw Error(KERF_PROGRAM_FAILURE,
                  cat("no logit at position ", filled - 1, " is a number"));
    return chosen;
  }

  void generate() {
    std::vector<double> draws(static_cast<size_t>(options.tokens));
    fillRandom("generate", options.sampling.seed, KERF_F64, options.tokens, 0,
               0, draws.data()); // in [-1, 1)
    SteadyClock::time_point begin = SteadyClock::now();
    for (int64_t each : options.prompt)
      step(each);
    prefillSeconds = secondsSince(begin);
    begin = SteadyClock::now();
    for (int64_t i = 0; i < options.tokens; ++i) {
      if (i > 0)
        step(chosen.back());
      chosen.push_back(choose((draws[static_cast<size_t>(i)] + 1) / 2));
      if (job.leads() && !options.json) {
        std::fprintf(out, "%s%lld", i ? " " : "",
                     static_cast<long long>(chosen.back()));
        std::fflush(out);
      }
      if (std::find(options.endIds.begin(), options.endIds.end(),
                    chosen.back()) != options.endIds.end())
        break;
    }
    decodeSeconds = secondsSince(begin);
    if (job.leads() && !options.json)
      std::fputc('\n', out);
    std::fflush(out);
  }

  static std::string rate(int64_t count, double seconds) {
    char text[96];
    std::snprintf(text, sizeof(text), "%lld tokens in %.3g s, %.4g tokens/s",
                  static_cast<long long>(count), seconds,
                  seconds > 0 ? static_cast<double>(count) / seconds : 0.0);
    return text;
  }

  void report() {
    if (!job.leads())
      return;
    auto steps = static_cast<int64_t>(chosen.size()) - 1;
    auto given = static_cast<int64_t>(options.prompt.size());
    if (!options.statsFile.empty())
      writeStatistics();
    if (options.json)
      say(out, json(given, steps) + "\n");
    else if (!options.quiet)
      say(err,
          "prefill " + rate(given, prefillSeconds) +
              (steps > 0 ? "\ndecode  " + rate(steps, decodeSeconds) : "") +
              "\n");
  }

  std::string json(int64_t given, int64_t steps) const {
    auto list = [](const std::vector<int64_t> &numbers) {
      std::string text;
      for (int64_t number : numbers)
        text += (text.empty() ? "" : ",") + std::to_string(number);
      return "[" + text + "]";
    };
    return cat(
        "{\"schema\":\"kerf.generate/1\",\"prompt\":", list(options.prompt),
        ",\"tokens\":", list(chosen), ",\"cache_length\":", length,
        ",\"prefill\":{\"tokens\":", given, ",\"seconds\":", prefillSeconds,
        "},\"decode\":{\"tokens\":", steps, ",\"seconds\":", decodeSeconds,
        "}}");
  }

  void writeStatistics() {
    char *text = nullptr;
    check(kerf_session_statistics(session.get(), &text));
    std::string content = text;
    kerf_string_free(text);
    FileSet files;
    std::string error;
    if (!files.add(options.statsFile, content + "\n", error) ||
        !files.commit(error))
      throw Error(KERF_IO_ERROR, error);
  }

  const GenerateOptions &options;
  JobScope &job;
  std::FILE *out;
  Messages err;
  std::unique_ptr<kerf_package_t, PackageCloser> package;
  int64_t id = 0, filled = 0; // inputs of a step, which the session borrows
  std::unique_ptr<kerf_session_t, SessionCloser> session;
  int32_t ids = -1, position = -1, unknown = -1, logits = -1;
  size_t idBytes = 0, positionBytes = 0;
  int64_t length = 0, vocabulary = 0;
  std::vector<int64_t> chosen;
  double prefillSeconds = 0, decodeSeconds = 0;
};
} // namespace

int kerf::rt::generate(const GenerateOptions &options, JobScope &job,
                       std::FILE *out, const Messages &err) {
  int code = 0;
  try {
    Generator(options, job, out, err).run();
  } catch (const Exit &exit) {
    code = exit.code;
  } catch (...) {
    Error error = currentError();
    // Messages about files begin with them.
    bool isLocated = error.code == KERF_IO_ERROR;
    code = job.report(toStatus(error), isLocated ? "" : options.named(), err);
  }
  return job.leave(code, err);
}

int kerf::rt::generateInProcesses(const GenerateOptions &options,
                                  std::FILE *out, const Messages &err) {
  kerf_package_options_t open = {};
  open.struct_size = sizeof(open);
  open.skip_hashes = 1; // each process compares them
  kerf_package_t *package = nullptr;
  if (kerf_status_t status =
          kerf_package_open(options.package.c_str(), &open, &package))
    return reportStatus(status, options.named(), err);
  int32_t ranks = kerf_package_num_ranks(package);
  kerf_package_close(package);
  return runProcesses(
      ranks,
      [&] {
        JobScope job;
        kerf_status_t status = job.join(options.timeoutSeconds, nullptr);
        return status ? reportStatus(status, options.named(), err)
                      : generate(options, job, out, err);
      },
      err);
}
