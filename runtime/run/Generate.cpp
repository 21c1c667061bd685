//===- Generate.cpp - feed a prompt, choose ids ---------------------------===//
//
// The prompt goes through the package's program for prompts, several ids in a
// step, whose caches the decoder then goes on with; without such a program, and
// in a job, through the decoder id by id. In a job every process makes the same
// steps, and rank 0, which has the logits, tells the others what it chose.
//
//===----------------------------------------------------------------------===//
#include "kerf/rt/generate.h"

#include "../base/Seconds.h"
#include "../base/Types.h"
#include "Figures.h"
#include "JobCommand.h"
#include "kerf/Format/Schemas.h"
#include "kerf/Format/State.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

using namespace kerf;
using namespace kerf::rt;

namespace {
struct StateCloser {
  void operator()(kerf_state_t *s) const { kerf_state_free(s); }
};

/// A program that takes ids and a position, and gives logits.
struct Decoder {
  PackageHandle package;
  int32_t ids = -1, position = -1, logits = -1;
  size_t idBytes = 0, positionBytes = 0; ///< of one
  int64_t tokens = 0;                    ///< in a step
  int64_t length = 0, vocabulary = 0;
  // Inputs of a step, which the session borrows.
  std::vector<char> step;
  int64_t filled = 0;
  SessionHandle session;
};

class Generator : public JobCommand {
public:
  Generator(const GenerateOptions &options, JobScope &job, std::FILE *out,
            const Messages &err)
      : JobCommand(options.named(), job, err), options(options), out(out) {}

  void run() {
    preferShortSpins();
    open();
    checkRequest();
    generate();
    report();
  }

private:
  void open() {
    kerf_package_options_t open = {};
    open.struct_size = sizeof(open);
    open.skip_hashes = options.skipHashes;
    kerf_package_t *raw = nullptr;
    check(kerf_package_open(options.package.c_str(), &open, &raw));
    decoder.package.reset(raw);
    if (job && kerf_package_num_ranks(raw) != job.size())
      usage(cat(named, ": has ", kerf_package_num_ranks(raw),
                " ranks, the job has ", job.size(), " processes"));
    describe(decoder);
    if (decoder.tokens != 1)
      usage(named + ": takes more than one id in a step");
    if (job) // whose processes have one state each
      return;
    open.skip_hashes = 1; // of weights, above
    check(kerf_package_open_program(raw, "prompt", &open, &raw));
    prompt.package.reset(raw);
    if (raw)
      describe(prompt);
  }

  void describe(Decoder &d) {
    kerf_package_t *package = d.package.get();
    for (int32_t i = 0, n = kerf_package_num_inputs(package); i < n; ++i)
      takeInput(d, i);
    if (d.ids < 0 || d.position < 0)
      usage(named +
            ": is no program that generates, which takes input_ids and " +
            kStatePosition +
            ": kerf compile MODEL option cache-length=N makes one");
    for (int32_t i = 0, n = kerf_package_num_outputs(package); i < n; ++i) {
      kerf_tensor_info_t info;
      check(kerf_package_output(package, i, &info));
      if (std::strcmp(info.name, "logits") != 0 && (n != 1 || info.rank == 0))
        continue;
      d.logits = i;
      d.vocabulary = info.rank > 0 ? info.shape[info.rank - 1] : 0;
      if (info.dtype != KERF_F32 ||
          info.bytes !=
              static_cast<size_t>(d.vocabulary * d.tokens) * sizeof(float))
        usage(cat(named, ": output \"", info.name,
                  "\" is no f32 of each id's logits"));
    }
    if (d.logits < 0 || d.vocabulary < 1)
      usage(named + ": has no output \"logits\"");
  }

  void takeInput(Decoder &d, int32_t index) {
    kerf_tensor_info_t info;
    check(kerf_package_input(d.package.get(), index, &info));
    bool isIds = std::strcmp(info.name, "input_ids") == 0;
    if (!isIds && std::strcmp(info.name, kStatePosition) != 0)
      usage(cat(named, ": takes the input \"", info.name,
                "\" in each step, of which generation knows nothing"));
    size_t each = kerf_dtype_size(info.dtype);
    bool isRow =
        isIds ? info.rank == 2 && info.shape[0] == 1 : info.bytes == each;
    if ((info.dtype != KERF_I64 && info.dtype != KERF_I32) || !isRow)
      usage(cat(named, ": input \"", info.name,
                "\" is of more than one sample, or of no ids"));
    (isIds ? d.ids : d.position) = index;
    (isIds ? d.idBytes : d.positionBytes) = each;
    if (isIds)
      d.tokens = info.shape[1];
    else
      d.length = info.range_high;
  }

  /// How to get a cache of `positions` positions, for messages.
  std::string longerCache(int64_t positions) const {
    return cat(options.model.empty()
                   ? ": kerf compile MODEL option cache-length="
                   : ": option cache-length=",
               positions, " has as many");
  }

  void checkRequest() {
    int64_t length = decoder.length, vocabulary = decoder.vocabulary;
    if (options.prompt.empty())
      usage("option prompt-ids: expected at least one id");
    for (int64_t id : options.prompt)
      if (id < 0 || id >= vocabulary)
        usage(cat("option prompt-ids: ", id, " is not in the vocabulary of ",
                  named, ", 0 to ", vocabulary - 1));
    for (int64_t id : options.endIds)
      if (id < 0 || id >= vocabulary)
        usage(cat("option eos: ", id, " is not in the vocabulary of ", named,
                  ", 0 to ", vocabulary - 1));
    auto given = static_cast<int64_t>(options.prompt.size());
    if (given > length)
      usage(cat("option prompt-ids: ", given, " ids, but the cache of ", named,
                " has ", length, " positions",
                longerCache(std::max(given, given + options.tokens - 1))));
    // The last id is not fed.
    if (options.tokens - 1 > length - given)
      usage(cat("option tokens: ", options.tokens, " behind a prompt of ",
                given, " need ", given, " + ", options.tokens - 1,
                " positions, but the cache of ", named, " has ", length,
                longerCache(given + options.tokens - 1)));
  }

  void start(Decoder &d) {
    kerf_session_options_t o = {};
    o.struct_size = sizeof(o);
    o.threads = options.threads;
    o.deadline_seconds = options.timeoutSeconds;
    o.inject = options.inject.empty() ? nullptr : options.inject.c_str();
    o.job = job.get();
    kerf_session_t *raw = nullptr;
    check(kerf_session_create(d.package.get(), &o, &raw));
    d.session.reset(raw);
    d.step.resize(static_cast<size_t>(d.tokens) * d.idBytes);
    check(kerf_session_set_input(raw, d.ids, d.step.data(), d.step.size()));
    // Little endian: a number of 32 bits is the first half of one of 64.
    check(kerf_session_set_input(raw, d.position, &d.filled, d.positionBytes));
  }

  /// Feeds up to a step's number of ids; their logits are the session's output.
  void step(Decoder &d, const int64_t *ids, int64_t count) {
    std::fill(d.step.begin(), d.step.end(), 0);
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(d.step.data() + static_cast<size_t>(i) * d.idBytes, &ids[i],
                  d.idBytes);
    check(kerf_session_run(d.session.get()));
    d.filled += count;
  }

  /// Feeds the prompt; the logits of its last id.
  std::vector<float> feedPrompt() {
    auto given = static_cast<int64_t>(options.prompt.size());
    bool together = prompt.package && given > 1;
    Decoder &d = together ? prompt : decoder;
    start(d);
    if (together) {
      kerf_state_t *raw = nullptr;
      check(kerf_state_create(d.session.get(), &raw));
      state.reset(raw);
      check(kerf_session_use_state(d.session.get(), raw));
    }
    SteadyClock::time_point begin = SteadyClock::now();
    int64_t last = 0;
    for (int64_t i = 0; i < given; i += last) {
      last = std::min(d.tokens, given - i);
      step(d, options.prompt.data() + i, last);
    }
    prefillSeconds = secondsSince(begin);
    std::vector<float> scores = logitsOf(d, last - 1);
    if (together) { // the decoder goes on where this one ends
      begin = SteadyClock::now();
      d.session.reset();
      start(decoder);
      check(kerf_session_use_state(decoder.session.get(), state.get()));
      decoder.filled = d.filled;
      switchSeconds = secondsSince(begin);
    }
    return scores;
  }

  /// On rank 0 alone; elsewhere nothing.
  std::vector<float> logitsOf(Decoder &d, int64_t row) {
    if (!job.leads())
      return {};
    const void *data;
    size_t bytes;
    check(kerf_session_get_output(d.session.get(), d.logits, &data, &bytes));
    const float *first = static_cast<const float *>(data) + row * d.vocabulary;
    return {first, first + d.vocabulary};
  }

  int64_t choose(const std::vector<float> &scores, double draw) {
    int64_t chosen = -1;
    if (job.leads())
      chosen = chooseToken(scores.data(), decoder.vocabulary, options.sampling,
                           draw);
    if (job)
      check(kerf_session_broadcast(decoder.session.get(), &chosen,
                                   sizeof(chosen)));
    if (chosen < 0)
      throw Error(
          KERF_PROGRAM_FAILURE,
          cat("no logit at position ", decoder.filled - 1, " is a number"));
    return chosen;
  }

  void generate() {
    std::vector<double> draws(static_cast<size_t>(options.tokens));
    fillRandom("generate", options.sampling.seed, KERF_F64, options.tokens, 0,
               0, draws.data()); // in [-1, 1)
    std::vector<float> scores = feedPrompt();
    SteadyClock::time_point begin = SteadyClock::now();
    for (int64_t i = 0; i < options.tokens; ++i) {
      if (i > 0) {
        step(decoder, &chosen.back(), 1);
        scores = logitsOf(decoder, 0);
      }
      chosen.push_back(choose(scores, (draws[static_cast<size_t>(i)] + 1) / 2));
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
    return cat(count, " tokens in ", threeDigits(seconds), " s, ",
               threeDigits(seconds > 0 ? double(count) / seconds : 0.0),
               " tokens/s");
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
              (switchSeconds > 0 ? "\nswitch  " + threeDigits(switchSeconds) +
                                       " s, from the prompt's program to that "
                                       "of one token"
                                 : "") +
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
        "{\"schema\":\"", generateSchema.text(),
        "\",\"prompt\":", list(options.prompt), ",\"tokens\":", list(chosen),
        ",\"cache_length\":", decoder.length,
        ",\"prefill\":{\"tokens\":", given, ",\"seconds\":", prefillSeconds,
        "},\"switch\":{\"seconds\":", switchSeconds,
        "},\"decode\":{\"tokens\":", steps, ",\"seconds\":", decodeSeconds,
        "}}");
  }

  void writeStatistics() {
    char *text = nullptr;
    check(kerf_session_statistics(decoder.session.get(), &text));
    std::string content = text;
    kerf_string_free(text);
    FileSet files;
    std::string error;
    if (!files.add(options.statsFile, content + "\n", error) ||
        !files.commit(error))
      throw Error(KERF_IO_ERROR, error);
  }

  const GenerateOptions &options;
  std::FILE *out;
  std::unique_ptr<kerf_state_t, StateCloser> state; ///< of both
  Decoder decoder, prompt;
  std::vector<int64_t> chosen;
  /// Steps of the prompt; from its program to the decoder; steps behind it.
  double prefillSeconds = 0, switchSeconds = 0, decodeSeconds = 0;
};
} // namespace

int kerf::rt::generate(const GenerateOptions &options, JobScope &job,
                       std::FILE *out, const Messages &err) {
  return runInJob(options.named(), job, err,
                  [&] { Generator(options, job, out, err).run(); });
}

int kerf::rt::generateInProcesses(const GenerateOptions &options,
                                  std::FILE *out, const Messages &err) {
  return runProcessPerRank(options.package, options.named(), err, [&] {
    JobScope job;
    kerf_status_t status = job.join(options.timeoutSeconds, nullptr);
    return status ? reportStatus(status, options.named(), err)
                  : generate(options, job, out, err);
  });
}
