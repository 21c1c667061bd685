//===- Trainer.cpp - the loop of training ---------------------------------===//
//
// See Trainer.h. Adam's count of updates advances only if a step's loss was
// finite: a step that the program skips does not count.
//
//===----------------------------------------------------------------------===//
#include "Trainer.h"

#include "Space.h"
#include "TensorFile.h"
#include "TrainedModel.h"

#include "../run/BadIndex.h"

#include "kerf/Format/StepScalars.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/run.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <unistd.h>

using namespace kerf;
using namespace kerf::rt;

static int64_t nanoseconds() { // the clock of the ranks' traces
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static Error usage(const std::string &message) {
  return Error(KERF_INVALID_ARGUMENT, message);
}

Trainer::~Trainer() {
  loader.reset();
  evaluator.reset();
  kerf_session_destroy(session);
  kerf_package_close(package);
}

/// The sign of a NaN says nothing.
static std::string text(double value) {
  return std::isfinite(value) ? cat(value)
         : std::isnan(value)  ? "nan"
         : value > 0          ? "inf"
                              : "-inf";
}

void Trainer::note(const std::string &text) {
  if (progress)
    progress->clear();
  if (!options.quiet && job.leads())
    say(err, noteLine(text));
}

void Trainer::openPackage() {
  kerf_package_options_t packageOptions = {};
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = 1; // written a moment ago
  checkStatus(
      kerf_package_open(options.package.c_str(), &packageOptions, &package));
  for (int32_t i = 0, n = kerf_package_num_inputs(package); i < n; ++i) {
    kerf_tensor_info_t info;
    checkStatus(kerf_package_input(package, i, &info));
    std::string name = info.name;
    if (name == kLossScaleInput)
      state.lossScale =
          options.lossScale > 0 ? LossScale{options.lossScale, 0} : LossScale();
    drawsNumbers |= name == kSeedInput;
    if (isStepScalar(name))
      continue;
    bool isLabels =
        std::find(options.loss.labels.begin(), options.loss.labels.end(),
                  name) != options.loss.labels.end();
    inputs.push_back(
        {name, info.dtype, {info.shape, info.shape + info.rank}, isLabels});
    inputs.back().isShared = isSharedInput(options, info);
    inputs.back().loss = isLabels ? &options.loss : nullptr;
    inputIndices.push_back(i);
  }
  for (int32_t i = 0, n = kerf_package_num_outputs(package); i < n; ++i) {
    kerf_tensor_info_t info;
    checkStatus(kerf_package_output(package, i, &info));
    if (std::string(info.name) == kLossOutput && lossOutput < 0)
      lossOutput = i;
    if (std::string(info.name) == kGradientNormOutput)
      normOutput = i;
  }
  if (lossOutput < 0)
    throw Error(KERF_BAD_PACKAGE, "the package has no output \"loss\"");
  weights.emplace(package);
  for (const Weights::Parameter &p : weights->parameters())
    if (p.isState &&
        !(options.output + options.safetensors + options.evalData).empty() &&
        std::find(options.trained.begin(), options.trained.end(), p.name) !=
            options.trained.end())
      throw usage(cat(options.model, ": weight \"", p.name,
                      "\" is made by nodes of the graph, a trained value has "
                      "no place in the model: option frozen=",
                      p.name,
                      " keeps it, option batch-norm=frozen a statistic"));
  for (const DataInput &input : inputs)
    requireLabelType(input, options.loss);
}

void Trainer::openData() {
  samples = bindColumns(
      kerf::rt::openData(options.data, options.sequenceLength), inputs);
  state.seed = options.seed;
  state.batch = batchOf(inputs);
  state.samples = samples.count;
  state.data = fingerprint(samples);
  state.shuffle = options.shuffle;
  state.keepLast = options.keepLast;
  if (samples.count < state.batch)
    throw usage(cat(options.data, ": has ", samples.count,
                    " samples, a batch needs ", state.batch));
  if (job.leads())
    requireLabels(samples, options.loss, options.data);
  batches.batch = state.batch;
  batches.shuffle = options.shuffle;
  batches.seed = options.seed;
  batches.ignoreIndex = options.loss.ignoreIndex;
  batches.ignores = options.loss.ignores;
  batches.classes = options.loss.classes;
  batches.padLast = options.keepLast && options.loss.ignores &&
                    (options.loss.hasClasses() || options.loss.classes > 0) &&
                    options.joins.empty();
  if (options.keepLast && !batches.padLast && samples.count % state.batch != 0)
    note(cat("the last ", samples.count % state.batch,
             " samples of an epoch are dropped: ",
             options.joins.empty()
                 ? std::string("this loss has no label that is ignored")
                 : options.joins));
  int64_t perEpoch = batches.padLast ? ceilDiv(samples.count, state.batch)
                                     : samples.count / state.batch;
  state.perEpoch = perEpoch;
  steps = options.steps > 0
              ? options.steps
              : mulChecked(std::max<int64_t>(1, options.epochs), perEpoch);
  rate = options.rate;
  if (rate.steps == 0)
    rate.steps = steps;
  if (rate.hasEnd() && rate.warmup >= rate.steps)
    throw usage(cat("option learning-rate: warmup is ", rate.warmup,
                    ", expected less than the ", rate.steps, " steps"));
  recipe = options.recipe;
  recipe["learning_rate"] = rate.text();
  if (!options.evalData.empty() && job.leads()) {
    std::vector<DataInput> labels;
    for (const DataInput &input : inputs)
      if (input.isLabels)
        labels.push_back(input);
    evaluator = std::make_unique<Evaluator>(
        options, labels, std::max(1, kerf_package_num_ranks(package)));
  }
}

void Trainer::createSession() {
  kerf_session_options_t sessionOptions = {};
  sessionOptions.struct_size = sizeof(sessionOptions);
  sessionOptions.threads = options.threads;
  sessionOptions.deadline_seconds = options.timeoutSeconds;
  sessionOptions.trace = !options.trace.empty();
  sessionOptions.inject =
      options.inject.empty() ? nullptr : options.inject.c_str();
  sessionOptions.job = job.get();
  checkStatus(kerf_session_create(package, &sessionOptions, &session));
}

void Trainer::resume() {
  if (!options.resume)
    return;
  bool found = job.leads() && loadCheckpoint();
  if (!job)
    return;
  // All ranks have the values; the position of the run is still to be restored.
  static_assert(std::is_trivially_copyable_v<RunState>);
  checkStatus(kerf_session_broadcast(session, &state, sizeof(state)));
  checkStatus(kerf_session_broadcast(session, &found, sizeof(found)));
  if (found)
    checkpointed = state.step;
}

bool Trainer::loadCheckpoint() {
  std::vector<std::string> refused;
  std::string changed;
  bool found = false;
  auto tell = [&] {
    for (const std::string &line : refused)
      say(err, "warning: " + printable(line) + "\n");
  };
  try {
    found = loadNewestCheckpoint(options.checkpointDir, recipe, *weights,
                                 session, state, refused, changed);
  } catch (Error &error) {
    error.notes.insert(error.notes.end(), refused.begin(), refused.end());
    throw;
  }
  tell();
  if (found && state.step > steps)
    throw usage(cat(options.checkpointDir, ": the run has done ", state.step,
                    " steps, option ",
                    options.steps > 0
                        ? cat("steps is ", steps)
                        : cat("epochs=", std::max<int64_t>(1, options.epochs),
                              " are ", steps)));
  if (found)
    checkpointed = state.step;
  note(found ? cat("goes on after step ", state.step)
             : options.checkpointDir +
                   ": has no checkpoint, the run starts at step 1");
  if (!changed.empty())
    note("not as before in this run: " + changed);
  return found;
}

void Trainer::setScalars() {
  scalars.learningRate = static_cast<float>(rate.at(state.step));
  scalars.biasCorrection1 =
      static_cast<float>(biasCorrection(options.beta1, state.updates + 1));
  scalars.biasCorrection2 =
      static_cast<float>(biasCorrection(options.beta2, state.updates + 1));
  // PyTorch's momentum starts as the first gradient, without dampening.
  scalars.gradientWeight =
      static_cast<float>(state.updates == 0 ? 1 : 1 - options.dampening);
  if (state.lossScale)
    scalars.lossScale = static_cast<float>(state.lossScale->value);
  scalars.seed = static_cast<int64_t>(options.seed);
  scalars.step = state.step;
  for (int32_t i = 0, n = kerf_package_num_inputs(package); i < n; ++i) {
    kerf_tensor_info_t info;
    checkStatus(kerf_package_input(package, i, &info));
    std::string name = info.name;
    if (!isStepScalar(name))
      continue;
    const void *value = nullptr;
    if (info.dtype == KERF_F32)
      value = name == kLearningRateInput      ? &scalars.learningRate
              : name == kBiasCorrection1Input ? &scalars.biasCorrection1
              : name == kBiasCorrection2Input ? &scalars.biasCorrection2
              : name == kGradientWeightInput  ? &scalars.gradientWeight
              : name == kLossScaleInput       ? &scalars.lossScale
                                              : nullptr;
    else if (info.dtype == KERF_I64)
      value = name == kSeedInput   ? &scalars.seed
              : name == kStepInput ? &scalars.step
                                   : nullptr;
    if (!value || info.rank != 0)
      throw Error(KERF_INTERNAL,
                  "the program asks for \"" + name + "\", which nobody knows");
    checkStatus(kerf_session_set_input(session, i, value, info.bytes));
  }
}

double Trainer::scalarOutput(int32_t index) {
  const void *data;
  size_t bytes;
  checkStatus(kerf_session_get_output(session, index, &data, &bytes));
  float value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

void Trainer::checkLabels(const Batch &batch) {
  if (batch.badSample < 0)
    return;
  throw Error(KERF_PROGRAM_FAILURE,
              cat("step ", state.step + 1, ": a label of sample ",
                  batch.badSample, " of ", options.data, " is ", batch.badLabel,
                  ", expected 0 to ", batches.classes - 1,
                  batches.ignores
                      ? cat(" or ", batches.ignoreIndex, " (ignored)")
                      : std::string()));
}

/// The elements of a batch's tensor, by an exact conversion.
static std::vector<double> numbersOf(const std::vector<char> &tensor,
                                     kerf_dtype_t dtype, ConvertFn widen) {
  std::vector<double> values(tensor.size() /
                             static_cast<size_t>(dtypeSize(dtype)));
  widen(tensor.data(), reinterpret_cast<char *>(values.data()),
        static_cast<int64_t>(values.size()));
  return values;
}

std::string Trainer::sampleOf(const std::string &failure,
                              const Batch &batch) const {
  std::optional<int64_t> index = badIndexOf(failure);
  std::map<int, std::string> texts; // by how likely they are
  for (size_t i = 0; index && i < inputs.size(); ++i) {
    const std::vector<char> &tensor = batch.tensors[i];
    std::optional<int64_t> place;
    if (!inputs[i].isLabels && !inputs[i].isShared)
      place =
          placeOfIndex(tensor.data(), tensor.size(), inputs[i].dtype, *index);
    if (!place)
      continue;
    auto count =
        static_cast<int64_t>(tensor.size() / kerf_dtype_size(inputs[i].dtype));
    int64_t sample = *place / (count / std::max<int64_t>(1, state.batch));
    if (sample >= int64_t(batch.samples.size()))
      continue;
    kerf_tensor_info_t info;
    checkStatus(kerf_package_input(package, inputIndices[i], &info));
    std::string &text = texts[suspicionOf(failure, info)];
    text += cat(text.empty() ? "; " : ", ", "sample ",
                batch.samples[static_cast<size_t>(sample)], " of ",
                options.data, " has it in \"", inputs[i].name, "\"");
  }
  return texts.empty() ? "" : texts.rbegin()->second;
}

/// Whether a tensor of labels has none that the loss counts.
static bool allAreIgnored(const std::vector<char> &labels, kerf_dtype_t dtype,
                          int64_t ignoreIndex) {
  ConvertFn widen = exactConversion(dtype, KERF_I64);
  if (!widen || !isInteger(dtype) || labels.empty())
    return false;
  std::vector<int64_t> values(labels.size() /
                              static_cast<size_t>(dtypeSize(dtype)));
  widen(labels.data(), reinterpret_cast<char *>(values.data()),
        static_cast<int64_t>(values.size()));
  return std::all_of(values.begin(), values.end(),
                     [&](int64_t value) { return value == ignoreIndex; });
}

std::string Trainer::notFiniteIn(const Batch &batch) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].isLabels && batches.ignores && options.loss.classes > 0 &&
        allAreIgnored(batch.tensors[i], inputs[i].dtype, batches.ignoreIndex))
      return cat("; no label of the batch counts: all of \"", inputs[i].name,
                 "\" are ", batches.ignoreIndex, " (ignore_index)");
  // A mask has infinities by right; nothing has a NaN.
  for (bool isNan : {true, false})
    for (size_t i = 0; i < inputs.size(); ++i) {
      ConvertFn widen = exactConversion(inputs[i].dtype, KERF_F64);
      if (!widen || isInteger(inputs[i].dtype))
        continue;
      auto values = numbersOf(batch.tensors[i], inputs[i].dtype, widen);
      auto found =
          std::find_if(values.begin(), values.end(), [&](double value) {
            return isNan ? std::isnan(value) : std::isinf(value);
          });
      if (found == values.end())
        continue;
      int64_t perSample = static_cast<int64_t>(values.size()) /
                          std::max<int64_t>(1, state.batch);
      int64_t sample =
          (found - values.begin()) / std::max<int64_t>(1, perSample);
      std::string where = cat(options.data, " has ", text(*found), " in \"",
                              inputs[i].name, "\"");
      if (!inputs[i].isShared && sample < int64_t(batch.samples.size()))
        where = cat("sample ", batch.samples[static_cast<size_t>(sample)],
                    " of ", where);
      return cat("; ", where,
                 isNan ? ""
                       : ", which may be the cause if it is no mask's; so may "
                         "a learning rate that is too large");
    }
  return "";
}

void Trainer::step() {
  readBegin = nanoseconds();
  const Batch &batch = loader->next();
  readEnd = nanoseconds();
  readSeconds += static_cast<double>(readEnd - readBegin) * 1e-9;
  checkLabels(batch);
  for (size_t i = 0; i < inputs.size(); ++i)
    checkStatus(kerf_session_set_input(session, inputIndices[i],
                                       batch.tensors[i].data(),
                                       batch.tensors[i].size()));
  setScalars();
  try {
    checkStatus(kerf_session_run(session));
  } catch (Error &error) {
    error.message = cat("step ", state.step + 1, ": ", error.message,
                        sampleOf(error.message, batch));
    throw;
  }
  runEnd = nanoseconds();
  StepReport report;
  report.step = state.step + 1;
  report.loss = scalarOutput(lossOutput);
  report.learningRate = rate.at(state.step);
  if (normOutput >= 0)
    report.gradientNorm = scalarOutput(normOutput);
  bool finite = std::isfinite(report.loss) &&
                (normOutput < 0 || std::isfinite(*report.gradientNorm));
  // In float16 a gradient that overflows says that the scale is too large.
  bool overflow = state.lossScale && std::isfinite(report.loss) && !finite;
  if (!finite && !overflow && !options.skipNan)
    throw Error(
        KERF_PROGRAM_FAILURE,
        cat("step ", report.step, ": the ",
            std::isfinite(report.loss) ? "norm of the gradients" : "loss",
            " is ",
            text(std::isfinite(report.loss) ? *report.gradientNorm
                                            : report.loss),
            notFiniteIn(batch),
            ", nothing is written (option on-nan=skip goes on without the "
            "step)"));
  report.skipped = !finite;
  if (state.lossScale) {
    report.lossScale = state.lossScale->value;
    updateLossScale(finite);
  }
  if (bytesPerRank < 0 && job.leads())
    bytesPerRank = nlohmann::json::parse(takeJson(kerf_session_statistics))
                       .at("communication")
                       .at("bytes_per_rank")
                       .get<int64_t>();
  report.bytesPerRank = bytesPerRank;
  if (!firstLossStep && std::isfinite(report.loss)) {
    firstLoss = report.loss;
    firstLossStep = report.step;
  }
  if (finite)
    lastLoss = report.loss;
  ++state.step;
  state.updates += finite;
  skippedInRow = finite ? 0 : skippedInRow + 1;
  state.epoch = batch.epoch;
  state.index = batch.index + 1;
  if (state.index == loader->batchesPerEpoch()) {
    ++state.epoch;
    state.index = 0;
  }
  report.seconds = static_cast<double>(nanoseconds() - readBegin) * 1e-9;
  progress->step(report);
  constexpr int64_t kMaxSkipped = 3;
  if (skippedInRow == kMaxSkipped && job.leads())
    requireFiniteParameters();
}

void Trainer::updateLossScale(bool finite) {
  int64_t interval = options.lossScaleInterval > 0 ? options.lossScaleInterval
                                                   : LossScale::growEvery;
  if (!state.lossScale->update(finite, interval))
    throw Error(KERF_PROGRAM_FAILURE,
                cat("step ", state.step + 1,
                    ": gradients overflow float16 at a loss scale of ",
                    text(2 * state.lossScale->value),
                    " too, nothing is written (option precision=bf16 has the "
                    "range of float32)"));
}

void Trainer::requireFiniteParameters() {
  for (size_t i = 0; i < weights->parameters().size(); ++i) {
    const Weights::Parameter &parameter = weights->parameters()[i];
    std::vector<char> data(static_cast<size_t>(parameter.bytes()));
    weights->get(session, i, data.data());
    requireFinite({parameter.name, parameter.dtype, parameter.shape},
                  data.data(), state.step - skippedInRow);
  }
}

void Trainer::evaluate() {
  if (!evaluator || evaluatedAt == state.step)
    return;
  evaluatedAt = state.step;
  Metrics metrics = evaluator->evaluate(*weights, session);
  lastMetrics = metrics;
  progress->evaluation(state.step, metrics);
  progress->clear();
  if (options.quiet || options.json)
    return;
  std::string line =
      cat("step ", state.step, ": evaluation loss ", text(metrics.loss()));
  if (metrics.hasAccuracy)
    line += cat(", accuracy ", text(metrics.accuracy()));
  // Labels that are ignored are no part of either.
  if (metrics.hasAccuracy && metrics.count != metrics.samples)
    line += cat(" of ", metrics.count, " labels");
  std::fprintf(out, "%s on %lld samples\n", line.c_str(),
               static_cast<long long>(metrics.samples));
  std::fflush(out);
}

void Trainer::checkpoint() {
  if (options.checkpointDir.empty() || checkpointed == state.step ||
      !job.leads())
    return;
  writeCheckpoint(options.checkpointDir, state, recipe, *weights, session);
  checkpointed = state.step;
}

void Trainer::checkpointOnTheWay() {
  try {
    checkpoint();
  } catch (const Error &error) {
    if (error.code != KERF_IO_ERROR)
      throw;
    progress->clear();
    say(err,
        cat("warning: ", printable(error.message),
            ": no checkpoint after step ", state.step, ", the run goes on\n"));
  }
}

void Trainer::finish() {
  if (!job.leads())
    return;
  // The trained model is written first: an evaluation may fail.
  writeOutputs();
  evaluate();
  printSummary();
  if (!options.inject.empty())
    throw Error(KERF_INVALID_ARGUMENT, unmetFault(options.inject));
}

void Trainer::noteIdle() {
  if (options.evalEvery > steps)
    note(cat("option eval-every: the run ends at step ", steps,
             ", before step ", options.evalEvery,
             "; the trained model is evaluated"));
  if (options.seedGiven && !options.shuffle && !drawsNumbers)
    note("option seed: nothing is drawn, samples keep their order (option "
         "shuffle) and the model draws no numbers");
}

void Trainer::run() {
  openPackage();
  openData();
  createSession();
  if (job.leads() && !options.checkpointDir.empty())
    checkpoints.emplace(options.checkpointDir, options.resume);
  resume();
  firstStep = state.step;
  if (job.leads())
    requireSpace(options, *weights);
  isReady = true;
  for (const std::string &text : options.notes)
    note(text);
  if (!samples.unread.empty())
    note(samples.unread);
  noteIdle();
  bytesPerRank = -1;
  loader = std::make_unique<BatchLoader>(
      samples, batches, BatchPosition{state.epoch, state.index});
  int64_t tokens = 0;
  bool readsTokens =
      std::any_of(inputs.begin(), inputs.end(), [](const DataInput &input) {
        return !input.isLabels && namesTokens(input.name);
      });
  for (const DataInput &input : inputs)
    if (readsTokens && input.isLabels && input.shape.size() > 1 &&
        options.loss.hasClasses())
      tokens = numElements(input.shape);
  bool terminal = !options.quiet && job.leads() && ::isatty(fileno(err.file));
  progress = std::make_unique<Progress>(
      job.leads() ? options.log : "", firstStep, steps, state.batch, tokens,
      terminal ? err.file : nullptr, err.file);
  while (state.step < steps) {
    step();
    if (options.checkpointEvery > 0 &&
        state.step % options.checkpointEvery == 0 && state.step < steps)
      checkpointOnTheWay();
    if (options.evalEvery > 0 && state.step % options.evalEvery == 0)
      evaluate();
    if (stopRequested() && state.step < steps) {
      checkpoint();
      progress->clear();
      if (!options.quiet)
        say(err,
            cat("note: stopped after step ", state.step,
                options.checkpointDir.empty()
                    ? ", nothing is written (option checkpoint-dir keeps a "
                      "checkpoint)"
                    : ", a checkpoint is written (option resume goes on)",
                "\n"));
      throw TrainExit{128 + static_cast<int>(*options.stop)};
    }
  }
  progress->clear();
  finish();
}
