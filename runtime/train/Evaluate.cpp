//===- Evaluate.cpp - the model on data that it is not trained on ---------===//
#include "Evaluate.h"

#include "kerf/Format/HostCores.h"
#include "kerf/rt/printable.h"

#include <algorithm>

using namespace kerf::rt;

Evaluator::Evaluator(const TrainOptions &options,
                     const std::vector<DataInput> &labels, int32_t ranks)
    : options(options), ranks(ranks) {
  kerf_package_options_t packageOptions = {};
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = 1;
  checkStatus(kerf_package_open(options.evalPackage.c_str(), &packageOptions,
                                &package));
  for (int32_t i = 0, n = kerf_package_num_inputs(package); i < n; ++i) {
    kerf_tensor_info_t info;
    checkStatus(kerf_package_input(package, i, &info));
    inputs.push_back(
        {info.name, info.dtype, {info.shape, info.shape + info.rank}, false});
    inputs.back().isShared = isSharedInput(options, info);
  }
  numInputs = inputs.size();
  for (const DataInput &label : labels) {
    auto same = [&](const DataInput &input) {
      return input.name == label.name;
    };
    auto known = std::find_if(inputs.begin(), inputs.end(), same);
    if (known == inputs.end())
      inputs.push_back(label);
    else
      known->isLabels = true; // the graph's own loss takes them
  }
  for (int32_t i = 0, n = kerf_package_num_outputs(package); i < n; ++i) {
    kerf_tensor_info_t info;
    checkStatus(kerf_package_output(package, i, &info));
    if (info.name == options.loss.output)
      output = i;
  }
  if (output < 0)
    throw Error(KERF_INVALID_ARGUMENT, "the model has no output \"" +
                                           options.loss.output +
                                           "\" to evaluate");
  samples =
      bindColumns(openData(options.evalData, options.sequenceLength), inputs);
  if (samples.count < 1)
    throw Error(KERF_INVALID_ARGUMENT, options.evalData + ": has no samples");
  batch = batchOf(inputs);
  isWhole = options.loss.isScalar() || !options.joins.empty();
  if (isWhole && samples.count < batch)
    throw Error(KERF_INVALID_ARGUMENT,
                cat(options.evalData, ": has ", samples.count,
                    " samples, a batch needs ", batch));
  if (isWhole && samples.count % batch != 0 && !options.quiet)
    say(stderr,
        cat("note: evaluation leaves out the last ", samples.count % batch,
            " samples of ", printable(options.evalData),
            options.loss.isScalar()
                ? std::string(": a loss of the graph's own is a mean over a "
                              "whole batch\n")
                : cat(": ", printable(options.joins), "\n")));
  for (const Column &column : samples.columns)
    buffers.emplace_back(static_cast<size_t>(column.sampleBytes() *
                                             (column.isShared ? 1 : batch)));
  requireLabels(samples, options.loss, options.evalData);
}

Evaluator::~Evaluator() { kerf_package_close(package); }

namespace {
/// Weights of the training session, by where the model keeps them.
struct Given {
  const kerf_package_t *package;
  const std::vector<Weights::Tensor> &tensors;
  std::vector<std::vector<char>> data; ///< as tensors; empty: the file's

  const void *find(int32_t parameter) const {
    kerf_parameter_info_t info;
    checkStatus(kerf_package_parameter(package, parameter, &info));
    for (size_t i = 0; info.file && i < tensors.size(); ++i)
      if (!data[i].empty() && tensors[i].file == info.file &&
          tensors[i].offset == info.file_offset &&
          tensors[i].name == info.stored.name)
        return data[i].data();
    return nullptr;
  }
};
} // namespace

void Evaluator::addBatch(kerf_session_t *session, int64_t index,
                         Metrics &metrics) {
  int64_t begin = index * batch;
  int64_t valid = std::min(batch, samples.count - begin);
  for (size_t c = 0; c < buffers.size(); ++c) {
    const Column &column = samples.columns[c];
    int64_t count = column.isShared ? 1 : batch;
    for (int64_t i = 0; i < count; ++i) // the rest of the last repeats
      column.read(begin + i % valid,
                  buffers[c].data() + i * column.sampleBytes());
  }
  try {
    checkStatus(kerf_session_run(session));
  } catch (Error &error) {
    error.message =
        cat("evaluation of samples ", begin, " to ", begin + valid - 1, " of ",
            options.evalData, ": ", error.message);
    throw;
  }
  kerf_tensor_info_t info;
  checkStatus(kerf_package_output(package, output, &info));
  const void *data;
  size_t bytes;
  checkStatus(kerf_session_get_output(session, output, &data, &bytes));
  MetricTensor result{info.dtype,
                      {info.shape, info.shape + info.rank},
                      static_cast<const char *>(data)};
  MetricTensor labels;
  bool hasLabels = false;
  for (size_t c = 0; c < inputs.size(); ++c)
    if (inputs[c].isLabels && !hasLabels) {
      labels = {inputs[c].dtype, inputs[c].shape, buffers[c].data()};
      hasLabels = true;
    }
  addMetrics(options.loss, result, hasLabels ? &labels : nullptr, valid,
             metrics);
}

Metrics Evaluator::evaluate(const Weights &weights, kerf_session_t *training) {
  Given given{package, weights.tensors(), {}};
  for (const Weights::Tensor &tensor : weights.tensors())
    given.data.push_back(tensor.parts.empty()
                             ? std::vector<char>()
                             : weights.gather(training, tensor));
  kerf_session_options_t sessionOptions = {};
  sessionOptions.struct_size = sizeof(sessionOptions);
  // The training ranks are idle meanwhile: evaluation uses their threads, but
  // no more than there are cores.
  auto cores = static_cast<int32_t>(hostCores().usable);
  sessionOptions.threads =
      options.threads > 0 ? std::min(cores, options.threads * ranks) : cores;
  sessionOptions.deadline_seconds = options.timeoutSeconds;
  sessionOptions.stored_tensor = [](void *user, int32_t parameter) {
    return static_cast<const Given *>(user)->find(parameter);
  };
  sessionOptions.stored_user = &given;
  kerf_session_t *session = nullptr;
  checkStatus(kerf_session_create(package, &sessionOptions, &session));
  given.data.clear();
  std::unique_ptr<kerf_session_t, void (*)(kerf_session_t *)> closer(
      session, kerf_session_destroy);
  for (size_t c = 0; c < numInputs; ++c)
    checkStatus(kerf_session_set_input(session, static_cast<int32_t>(c),
                                       buffers[c].data(), buffers[c].size()));
  Metrics metrics;
  int64_t batches =
      isWhole ? samples.count / batch : ceilDiv(samples.count, batch);
  for (int64_t i = 0; i < batches; ++i)
    addBatch(session, i, metrics);
  return metrics;
}
