//===- Completion.h - a command line for bash to complete -------*- C++ -*-===//
//
// Written from the flags as they are defined, so it cannot miss one: commands,
// the flags of each, and the words that a flag takes where it takes some of a
// list, or begins with one. Everything else is completed as a file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_COMPLETION_H
#define KERF_TOOLS_COMPLETION_H

#include <CLI/CLI.hpp>

#include <map>
#include <string>

namespace kerf::tool {

/// The words of CLI::IsMember, "{a,b}" in the type's name, by spaces.
inline std::string wordsOf(const CLI::Option &option) {
  std::string type = option.get_type_name(), words;
  size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos)
    return "";
  for (char c : type.substr(begin + 1, end - begin - 1))
    words += c == ',' ? ' ' : c;
  return words;
}

/// By flag, with what a value may begin beside the name of a file.
using FirstWords = std::map<std::string, std::string>;

/// "case" arms: `COMMAND:--flag` gives words, `COMMAND` its flags.
inline void completeCommand(const CLI::App &app, const std::string &command,
                            const std::string &hiddenGroup,
                            const FirstWords &first, std::string &values,
                            std::string &flags) {
  std::string list;
  for (const CLI::Option *option : app.get_options()) {
    if (!hiddenGroup.empty() && option->get_group() == hiddenGroup)
      continue;
    bool takesValue = option->get_items_expected_max() > 0;
    for (const std::string &name : option->get_lnames()) {
      list += " --" + name + (takesValue ? "=" : "");
      if (std::string words = wordsOf(*option); !words.empty())
        values +=
            "    " + command + ":--" + name + ") words=\"" + words + "\" ;;\n";
      else if (auto found = first.find("--" + name); found != first.end())
        values += "    " + command + ":--" + name + ") words=\"" +
                  found->second + "\" files=1 ;;\n";
    }
    for (const std::string &name : option->get_snames())
      list += " -" + name;
  }
  flags += "    " + command + ") words=\"" + list.substr(list.empty() ? 0 : 1) +
           "\" ;;\n";
}

inline std::string bashCompletion(const CLI::App &app,
                                  const std::string &hiddenGroup,
                                  const FirstWords &first) {
  std::string values, flags, commands, name = app.get_name();
  completeCommand(app, "-", hiddenGroup, first, values, flags);
  for (const CLI::App *sub : app.get_subcommands({})) {
    commands += (commands.empty() ? "" : " ") + sub->get_name();
    completeCommand(*sub, sub->get_name(), hiddenGroup, first, values, flags);
  }
  std::string function = "_" + name;
  for (char &c : function)
    c = c == '-' ? '_' : c;
  return "# bash completion for " + name + ", written by " + name +
         " --bash-completion\n" + function + R"(() {
  local line=${COMP_LINE:0:COMP_POINT} current command=- flag= words= files= i
  # bash takes `=` for a word of its own; what stands behind the last blank is
  # what is being typed.
  current=${line##*[[:space:]]}
  local typed=($line)
  local commands=")" +
         commands + R"("
  for i in "${typed[@]:1}"; do
    case " $commands " in *" $i "*) [ "$i" != "$current" ] && { command=$i; break; } ;; esac
  done
  if [ $command = - ] && [ -n "$commands" ] && [[ $current != -* ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$current"))
    return
  fi
  # `--flag value` as `--flag=value`.
  local before=${line%"$current"} previous
  before=${before%"${before##*[![:space:]]}"}
  previous=${before##*[[:space:]]}
  [[ $current != -* && $previous == --* && $previous != *=* ]] && current=$previous=$current
  if [[ $current == --*=* ]]; then
    flag=${current%%=*}
    case $command:$flag in
)" + values +
         R"(    esac
    current=${current#*=}
    if [ -n "$words" ]; then
      COMPREPLY=($(compgen -W "$words" -- "$current"))
      [ -n "$files" ] && COMPREPLY+=($(compgen -f -- "$current"))
    else
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -- "$current"))
    fi
    return
  fi
  if [[ $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$current"))
    return
  fi
  case $command in
)" + flags +
         R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F )" +
         function + " " + name + "\n";
}

/// Prints it as --version prints a version.
inline void addCompletion(CLI::App &app, const std::string &hiddenGroup = "",
                          const FirstWords &first = {}) {
  app.add_flag_callback(
      "--bash-completion",
      [&app, hiddenGroup, first] {
        throw CLI::CallForVersion(bashCompletion(app, hiddenGroup, first), 0);
      },
      "Print what bash completes command lines with");
}

} // namespace kerf::tool

#endif // KERF_TOOLS_COMPLETION_H
