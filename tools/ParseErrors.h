//===- ParseErrors.h - what is wrong with a command line --------*- C++ -*-===//
//
// CLI11 looks at what is missing before it looks at what it does not know: a
// misspelt flag is then reported as the absence of another. Here the unknown
// one comes first, with the flag that was probably meant.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_PARSEERRORS_H
#define KERF_TOOLS_PARSEERRORS_H

#include "kerf/Format/ClosestName.h"

#include <CLI/CLI.hpp>

#include <regex>
#include <string>
#include <vector>

namespace kerf::tool {

/// The flag, of those that the commands have, that other programs call so;
/// empty: none.
inline std::string flagOfOthers(const std::string &flag,
                                const std::vector<std::string> &names) {
  static const std::vector<std::pair<const char *, std::vector<std::string>>>
      others = {
          {"epochs", {"num-epochs", "n-epochs", "max-epochs"}},
          {"steps", {"max-steps", "num-steps", "iters", "iterations"}},
          {"output", {"save", "save-path", "out", "save-model"}},
          {"clip-norm", {"grad-clip", "clip-grad-norm", "max-grad-norm"}},
          {"learning-rate", {"warmup", "warmup-steps", "scheduler"}},
          {"accumulate", {"gradient-accumulation-steps", "grad-accum"}},
          {"eval-data", {"val-data", "valid-data", "validation-data"}},
          {"checkpoint-dir", {"checkpoint", "ckpt-dir", "save-dir"}},
          {"precision", {"dtype", "fp16", "bf16", "amp", "half", "fp32"}},
          {"devices",
           {"gpus", "num-gpus", "n-gpus", "num-devices", "world-size", "nproc",
            "device"}},
          {"mesh",
           {"tp", "dp", "pp", "tensor-parallel", "data-parallel",
            "pipeline-parallel", "tensor-parallel-size",
            "pipeline-parallel-size"}},
          {"memory-limit", {"memory", "mem", "max-memory"}},
          {"tokens", {"max-tokens", "max-new-tokens", "max-length"}},
          {"prompt-ids", {"prompt", "prompts", "ids"}},
          {"sequence-length", {"block-size", "context-length"}},
          {"recompute", {"gradient-checkpointing", "activation-checkpointing"}},
      };
  std::string name = flag.substr(std::min<size_t>(2, flag.size()));
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto &[own, words] : others)
    if (std::count(words.begin(), words.end(), name) > 0 &&
        std::count(names.begin(), names.end(), own) > 0)
      return own;
  return "";
}

/// What an unknown argument is called in the commands that have `names`, behind
/// what other programs call it; empty: not known.
inline std::string ownWordFor(const std::string &argument,
                              const std::vector<std::string> &names) {
  const std::string flag = argument.substr(0, argument.find('='));
  auto has = [&](const char *name) {
    return std::count(names.begin(), names.end(), name) > 0;
  };
  static const std::regex number("--(lr|learning[-_]rate|momentum|betas?|eps|"
                                 "weight[-_]decay)"),
      batch("--(batch|batch_size|bs)"),
      size("--(batch|batch[-_]size|bs|seq|seq[-_]len(gth)?)"), path(".*[./].*"),
      assignment("[a-z_]+=.*"), arrays(".*\\.np[yz]"), json(".*\\.json"),
      output("-o|--output|--out");
  if (has("optimizer") && std::regex_match(flag, number))
    return ": an optimizer's numbers follow its name, as in "
           "--optimizer=adamw,lr=0.001,weight_decay=0.01";
  if (has("batch-size") && std::regex_match(flag, batch))
    return ", did you mean --batch-size?";
  if (has("dim") && std::regex_match(flag, size))
    return ": sizes are bound by --dim, as in --dim=batch=4";
  if (has("output-dir") && !has("output") && std::regex_match(flag, output))
    return ": outputs are written by --output-dir=FOLDER";
  if (flag.compare(0, 1, "-") == 0)
    return "";
  if (argument.find("=@") != std::string::npos && has("input"))
    return ": inputs follow a flag, as in --input=" + argument;
  if (std::regex_match(argument, assignment) && has("dim") &&
      !std::regex_match("--" + flag, number))
    return ": several sizes have commas between them, as in "
           "--dim=batch=2,seq=4";
  if (std::regex_match(argument, assignment))
    return has("optimizer") ? ": what follows an optimizer's or a loss's name "
                              "is behind a comma, as in "
                              "--optimizer=adamw,lr=0.001"
                            : "";
  if (has("diff") && std::regex_match(flag, json))
    return ": two documents are compared by --diff=" + flag;
  const char *meant =
      std::regex_match(flag, arrays) ? has("data")    ? "--data="
                                       : has("input") ? "--input=@"
                                                      : ""
      : std::regex_match(flag, json) && has("plan")   ? "--plan="
      : std::regex_match(flag, path) && has("output") ? "--output="
                                                      : "";
  return *meant ? std::string(": files besides the first follow a flag, as "
                              "in ") +
                      meant + (flag[0] == '@' ? flag.substr(1) : flag)
                : "";
}

/// ", did you mean --this or --that?": what begins with the flag, else what is
/// near to it; empty: nothing.
inline std::string meantFlags(const std::string &flag,
                              const std::vector<std::string> &names) {
  constexpr size_t kMinLetters = 2, kMaxFlags = 3; // letters, flags
  std::string wanted = flag.substr(2);
  std::vector<std::string> longer;
  for (const std::string &name : names)
    if (wanted.size() >= kMinLetters &&
        name.compare(0, wanted.size(), wanted) == 0)
      longer.push_back(name);
  if (longer.empty() || longer.size() > kMaxFlags)
    longer = {kerf::closestName(wanted, names)};
  std::string text;
  for (size_t i = 0; i < longer.size(); ++i)
    text += (i == 0                   ? "--"
             : i + 1 == longer.size() ? " or --"
                                      : ", --") +
            longer[i];
  return longer.front().empty() ? "" : ", did you mean " + text + "?";
}

/// What to do with "b=2" in "--input a=1 b=2", of which the flag takes one
/// value: give the flag again, or put a comma between them; empty: `argument`
/// does not follow a flag so.
inline std::string anotherValue(const std::vector<const CLI::Option *> &options,
                                const std::vector<std::string> &arguments,
                                const std::string &argument) {
  auto isAssignment = [](const std::string &text) {
    return text.compare(0, 1, "-") != 0 && text.find('=') != text.npos &&
           text.find('=') > 0;
  };
  auto at = std::find(arguments.begin(), arguments.end(), argument);
  if (at == arguments.end() || !isAssignment(argument))
    return "";
  // Back over what was taken and what follows it.
  auto begin = at;
  while (begin != arguments.begin() && begin[-1].compare(0, 1, "-") != 0)
    --begin;
  if (begin == arguments.begin())
    return "";
  std::string flag = begin[-1].substr(0, begin[-1].find('='));
  if (flag.size() < begin[-1].size())
    --begin;
  auto option = std::find_if(options.begin(), options.end(), [&](auto *each) {
    return flag.compare(0, 2, "--") == 0 && each->check_lname(flag.substr(2));
  });
  if (option == options.end() || (*option)->get_items_expected_max() == 0)
    return "";
  if (flag == "--dim")
    return ": several sizes have commas between them, as in "
           "--dim=batch=2,seq=4";
  if (flag == "--optimizer" || flag == "--loss")
    return ": what follows an optimizer's or a loss's name is behind a comma, "
           "as in --optimizer=adamw,lr=0.001";
  std::string first = *begin;
  if (first.compare(0, 1, "-") == 0)
    first = first.substr(flag.size() + 1);
  if ((*option)->get_expected_max() > 1)
    return ": each has its own " + flag + ", as in " + flag + " " + first +
           " " + flag + " " + argument;
  return isAssignment(first) || flag == "--learning-rate"
             ? ": values of " + flag + " have commas between them, as in " +
                   flag + "=" + first + "," + argument
             : "";
}

/// "--dim batch 8", of flags whose values are assignments; empty: there is
/// none.
inline std::string spacedAssignment(const std::vector<std::string> &arguments) {
  static const std::regex flags("--(dim|mesh|shard|batch-dim|constant|input|"
                                "state)(=[^=@]+)?"),
      value("[^-=@][^=]*"), behind("[^-].*");
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    std::smatch found;
    if (!std::regex_match(arguments[i], found, flags))
      continue;
    bool isJoined = found[2].matched;
    if (!isJoined && (i + 2 >= arguments.size() ||
                      !std::regex_match(arguments[i + 1], value)))
      continue;
    const std::string &last = arguments[i + (isJoined ? 1 : 2)];
    if (!std::regex_match(last, behind) || last.find('=') == 0)
      continue;
    std::string first =
        isJoined ? arguments[i] : arguments[i] + "=" + arguments[i + 1];
    return "--" + found.str(1) +
           ": name and value have '=' between them, as "
           "in " +
           first + "=" + last;
  }
  return "";
}

/// "80 GiB" behind a flag, and a second model; empty: it is neither.
inline std::string strayWord(const std::vector<std::string> &arguments,
                             const std::string &word) {
  static const std::regex unit("([KMGT]i?B|B|ms|us|s)"),
      number("(--[a-z-]+)=?([0-9.]*)"), model(".*\\.onnx");
  auto at = std::find(arguments.begin(), arguments.end(), word);
  std::smatch found;
  if (std::regex_match(word, unit) && at != arguments.end())
    for (size_t back = 1; back <= 2 && at - arguments.begin() >= long(back);
         ++back) {
      const std::string &flag = *(at - back);
      if (!std::regex_match(flag, found, number))
        continue;
      std::string count = back == 2 ? *(at - 1) : found.str(2);
      return found.str(1) + ": number and unit stand together, as in " +
             found.str(1) + "=" + count + word;
    }
  auto isModel = [&](const std::string &each) {
    return std::regex_match(each, model) && each.compare(0, 1, "-") != 0;
  };
  auto first = std::find_if(arguments.begin(), arguments.end(), isModel);
  return isModel(word) && first != arguments.end() && *first != word
             ? "unknown argument " + word + ": one model is taken, " + *first
             : "";
}

/// The first argument that neither `app` nor its command takes; empty: none.
inline std::string unknownArgument(const CLI::App &app,
                                   const std::vector<std::string> &arguments) {
  std::vector<const CLI::Option *> options = app.get_options();
  std::vector<std::string> names, rest = app.remaining(/*recurse=*/false);
  auto addNames = [&](const CLI::App &each) {
    for (const CLI::Option *option : each.get_options())
      for (const std::string &name : option->get_lnames())
        names.push_back(name);
  };
  addNames(app);
  for (const CLI::App *sub : app.get_subcommands()) {
    addNames(*sub);
    for (const CLI::Option *option : sub->get_options())
      options.push_back(option);
    for (const std::string &text : sub->remaining(/*recurse=*/false))
      rest.push_back(text);
  }
  if (rest.empty())
    return "";
  if (std::string own = spacedAssignment(arguments); !own.empty())
    return own;
  if (std::string own = strayWord(arguments, rest.front()); !own.empty())
    return own;
  std::string flag = rest.front().substr(0, rest.front().find('='));
  std::string owners;
  for (const CLI::App *sub :
       app.get_subcommands([](const CLI::App *) { return true; }))
    for (const CLI::Option *option : sub->get_options())
      if (!app.get_subcommands().empty() &&
          (flag.compare(0, 2, "--") == 0
               ? option->check_lname(flag.substr(2)) &&
                     !std::count(names.begin(), names.end(), flag.substr(2))
               : flag.size() == 2 && flag[0] == '-' &&
                     option->check_sname(flag.substr(1))))
        owners += (owners.empty() ? "" : ", ") + sub->get_name();
  if (std::string own = anotherValue(options, arguments, rest.front());
      !own.empty())
    return "unknown argument " + rest.front() + own;
  if (std::string own = ownWordFor(rest.front(), names); !own.empty())
    return "unknown argument " + rest.front() + own;
  if (!owners.empty())
    return "unknown argument " + rest.front() + ", which is of " +
           app.get_name() + (app.get_name().empty() ? "" : " ") + owners;
  if (flag.compare(0, 2, "--") != 0)
    return "unknown argument " + rest.front();
  if (std::string own = flagOfOthers(flag, names); !own.empty())
    return "unknown argument " + rest.front() + ", did you mean --" + own + "?";
  return "unknown argument " + rest.front() + meantFlags(flag, names);
}

/// Parses a command line, of which a flag with "=" has a value: with an empty
/// one CLI11 would take the next argument. No argument is empty, and of
/// "-dim" or "-output" none is a flag of one letter with a value behind it.
/// Throws CLI::ParseError.
inline void parse(CLI::App &app, int argc, const char *const *argv) {
  static const std::regex empty("--[a-z][a-z-]*="),
      oneDash("-[a-z][a-z-]+(=.*)?");
  const CLI::App &all = app;
  std::vector<const CLI::App *> takers =
      all.get_subcommands([&](const CLI::App *each) {
        return argc > 1 && each->get_name() == argv[1];
      });
  takers.push_back(&all);
  auto isKnown = [&](const std::string &flag) {
    for (const CLI::App *each : takers)
      for (const CLI::Option *option : each->get_options())
        if (option->check_lname(flag.substr(2)))
          return true;
    return false;
  };
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i],
                flag = argument.substr(0, argument.find('='));
    if (argument.empty())
      throw CLI::ArgumentMismatch(
          std::string("what follows ") + argv[i - 1] +
              " is empty: is a variable of the shell not set?",
          CLI::ExitCodes::ArgumentMismatch);
    if (std::regex_match(argument, oneDash) && isKnown("-" + flag))
      throw CLI::ArgumentMismatch("unknown argument " + argument +
                                      ", did you mean -" + flag + "?",
                                  CLI::ExitCodes::ArgumentMismatch);
    if (std::regex_match(argv[i], empty)) {
      std::string flag = argv[i];
      flag.pop_back();
      if (!isKnown(flag)) // said with what was meant
        continue;
      throw CLI::ArgumentMismatch(flag + ": a value is missing",
                                  CLI::ExitCodes::ArgumentMismatch);
    }
  }
  app.parse(argc, argv);
}

inline std::vector<std::string> commandNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *sub :
       app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

/// A command line without a command.
inline std::string missingCommand(const CLI::App &app) {
  std::string all;
  for (const std::string &name : commandNames(app))
    all += (all.empty() ? "" : ", ") + name;
  return "no command is given, expected one of " + all;
}

inline std::string unknownCommand(const CLI::App &app,
                                  const std::string &command) {
  static const std::regex file(".*\\.(onnx|kerf)/?");
  if (std::regex_match(command, file))
    return "'" + command + "' is no command: kerf run " + command + " runs it";
  std::string close = kerf::closestName(command, commandNames(app));
  return "unknown command '" + command + "'" +
         (close.empty() ? "" : ", did you mean " + close + "?");
}

/// As all other messages say what is expected: "a, b or c".
inline std::string inOwnWords(const std::string &message) {
  std::smatch found;
  static const std::regex set("(.*): (.*) not in \\{(.*)\\}"),
      range("(.*): Value (.*) not in range (.*) to (.*)");
  if (std::regex_match(message, found, range)) {
    // 0.000000 as 0; what has no end has one in a flag's type alone.
    auto number = [](const std::string &text) {
      static const std::regex zeros("\\.0+$");
      return std::regex_replace(text, zeros, "");
    };
    std::string least = number(found.str(3)), most = number(found.str(4));
    constexpr size_t kEndless = 20;
    return found.str(1) + ": '" + found.str(2) + "', expected " +
           (most.size() < kEndless ? least + " to " + most
                                   : "at least " + least);
  }
  static const std::regex twice("(.*): At Most 1 required but received .*"),
      absent("(.*): 1 required .* missing");
  if (std::regex_match(message, found, twice))
    return found.str(1) + " is given more than once";
  if (std::regex_match(message, found, absent))
    return found.str(1) + ": a value is missing";
  if (!std::regex_match(message, found, set))
    return message;
  std::string names = std::regex_replace(found.str(3), std::regex(","), ", ");
  if (size_t last = names.rfind(", "); last != std::string::npos)
    names.replace(last, 2, " or ");
  return found.str(1) + ": '" + found.str(2) + "', expected " + names;
}

/// "model is required" as other messages say that something is missing.
inline std::string whatIsMissing(const CLI::App &app,
                                 const std::string &message) {
  static const std::vector<std::pair<std::string, const char *>> examples = {
      {"document", "plan.json"},
      {"model", "model.onnx"},
      {"package", "model.kerf"}};
  for (const auto &[name, example] : examples) {
    if (message != name + " is required")
      continue;
    std::string command = app.get_name();
    for (const CLI::App *sub : app.get_subcommands())
      command += " " + sub->get_name();
    return name + " is missing, expected as " + command +
           (command.empty() ? "" : " ") + example;
  }
  return message;
}

/// Whether a flag of one letter was typed, alone, among others as in -vq, or
/// with its value as in -oFILE.
inline bool isTyped(const std::vector<const CLI::Option *> &options,
                    const std::vector<std::string> &arguments, char letter) {
  for (const std::string &argument : arguments)
    for (size_t i = 1; argument[0] == '-' &&
                       argument.compare(0, 2, "--") != 0 && i < argument.size();
         ++i) {
      if (argument[i] == letter)
        return true;
      auto isFlag = [&](const CLI::Option *each) {
        return each->check_sname(std::string(1, argument[i])) &&
               each->get_items_expected_max() == 0;
      };
      if (std::none_of(options.begin(), options.end(), isFlag))
        break;
    }
  return false;
}

/// A message that names a flag which has a short and a long form by the one
/// that was typed, if just one was.
inline std::string asTyped(std::string message, const CLI::App &app, int argc,
                           const char *const *argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::vector<const CLI::Option *> options = app.get_options();
  for (const CLI::App *sub : app.get_subcommands())
    for (const CLI::Option *option : sub->get_options())
      options.push_back(option);
  for (const CLI::Option *option : options) {
    if (option->get_snames().empty() || option->get_lnames().empty())
      continue;
    std::string brief = "-" + option->get_snames().front(),
                full = "--" + option->get_lnames().front();
    bool isBrief = isTyped(options, arguments, brief[1]),
         isFull = std::any_of(arguments.begin(), arguments.end(),
                              [&](const std::string &each) {
                                return each.substr(0, each.find('=')) == full;
                              });
    if (isBrief != isFull)
      message = std::regex_replace(
          message,
          std::regex("(^|[^-\\w])" + (isBrief ? full : brief) + "(?![-=\\w])"),
          "$1" + (isBrief ? brief : full));
  }
  return message;
}

/// One line.
inline std::string describeParseError(const CLI::App &app,
                                      const CLI::ParseError &error, int argc,
                                      const char *const *argv) {
  std::string message = unknownArgument(
      app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  bool isAboutFlags = dynamic_cast<const CLI::RequiredError *>(&error) ||
                      dynamic_cast<const CLI::ExtrasError *>(&error);
  if (message.empty() || !isAboutFlags)
    message = error.what();
  for (char &c : message)
    if (c == '\n')
      c = ' ';
  return asTyped(whatIsMissing(app, inOwnWords(message)), app, argc, argv);
}

} // namespace kerf::tool

#endif // KERF_TOOLS_PARSEERRORS_H
