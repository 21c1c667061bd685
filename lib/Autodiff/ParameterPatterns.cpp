//===- ParameterPatterns.cpp - patterns of names of parameters ------------===//
#include "ParameterPatterns.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::autodiff;

bool Patterns::match(StringRef name) {
  bool found = false;
  names.push_back(name.str());
  for (Pattern &pattern : patterns)
    if (pattern.regex.match(name))
      found = pattern.used = true;
  return found;
}

bool Patterns::matchPart(StringRef name) {
  bool found = false;
  for (Pattern &pattern : patterns)
    if (pattern.text == name)
      found = pattern.used = true;
  return found;
}

LogicalResult Patterns::checkSyntax(Step &step) {
  std::string error;
  for (Pattern &pattern : patterns)
    if (!pattern.regex.isValid(error))
      return step.request(flag + ": '" + pattern.text +
                          "' is no regular expression: " + error +
                          (StringRef(pattern.text).contains('*')
                               ? Twine(" (any characters are '.*')")
                               : Twine()));
  return success();
}

std::string Patterns::someNames() const {
  constexpr size_t kFew = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kFew, names.size()); ++i)
    text += (i == 0 ? ": there are '" : ", '") + names[i] + "'";
  if (names.size() > kFew)
    text += " and " + std::to_string(names.size() - kFew) +
            (names.size() == kFew + 1 ? " other" : " others");
  return text;
}

/// The alternatives of a pattern outside of parentheses and brackets; one:
/// there are none.
static llvm::SmallVector<StringRef> alternativesOf(StringRef text) {
  llvm::SmallVector<StringRef> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '(' || text[i] == '[')
      ++depth;
    else if (text[i] == ')' || text[i] == ']')
      --depth;
    else if (text[i] == '|' && depth == 0) {
      parts.push_back(text.slice(begin, i));
      begin = i + 1;
    }
  parts.push_back(text.drop_front(begin));
  return parts;
}

bool Patterns::isIdle(StringRef pattern) const {
  llvm::Regex regex = namePattern(pattern.str());
  return llvm::none_of(
      names, [&](const std::string &name) { return regex.match(name); });
}

std::string Patterns::ofList(StringRef text) const {
  // The option is read to the end of the optimizer's text.
  size_t comma = text.find(',');
  if (flag.ends_with("no_decay") && text.find('=', comma) != StringRef::npos &&
      comma != StringRef::npos)
    return ": no_decay takes all that follows it, put it last";
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  auto matches = [&](StringRef part) { return !isIdle(part.trim()); };
  if (parts.size() < 2 || !llvm::all_of(parts, matches))
    return "";
  return ": a comma divides nothing here: repeat the flag, or '(" +
         llvm::join(
             llvm::map_range(parts, [](StringRef part) { return part.trim(); }),
             "|") +
         ")'";
}

LogicalResult Patterns::checkUsed(Step &step) {
  LogicalResult result = success();
  for (const Pattern &pattern : patterns)
    if (const auto *found =
            pattern.used ? statistics.end()
                         : llvm::find_if(statistics,
                                         [&](const std::string &name) {
                                           return pattern.regex.match(name);
                                         });
        found != statistics.end()) {
      result = step.request(flag + ": '" + pattern.text +
                            "' names running statistics ('" + *found +
                            "') and no parameter; option "
                            "batch-norm=frozen keeps these");
    } else if (!pattern.used) {
      std::string stored = storedAs(otherNames, pattern.text);
      std::string list = ofList(pattern.text);
      std::string close = !stored.empty() ? ": " + stored
                          : !list.empty() ? list
                                          : closestPattern(pattern.text, names);
      result = step.request(flag + ": no parameter matches '" + pattern.text +
                            "'" + (close.empty() ? someNames() : close));
      if (stored.empty())
        step.note("weights that several layers share have one name; kerf plan "
                  "with option train and -v prints all names");
    }
  return result;
}

void Patterns::noteOtherNames(Step &step) const {
  for (const Pattern &pattern : patterns)
    if (std::string stored = storedAs(otherNames, pattern.text);
        pattern.used && !stored.empty())
      step.notes.push_back(flag.str() + ": " + stored + ", which '" +
                           pattern.text + "' does not match");
  for (const Pattern &pattern : patterns)
    if (auto parts = alternativesOf(pattern.text);
        pattern.used && parts.size() > 1)
      for (StringRef part : parts)
        if (isIdle(part))
          step.notes.push_back(flag.str() + ": no parameter matches '" +
                               part.str() + "' of '" + pattern.text +
                               "': whole names are matched");
}
