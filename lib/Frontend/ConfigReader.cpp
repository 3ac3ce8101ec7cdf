#include "ConfigReader.h"
#include "cleave/Json/Json.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include <cmath>

using namespace cleave::frontend;
using nlohmann::json;

namespace {

constexpr size_t maxBytes = size_t(16) << 20;
constexpr size_t maxDepth = 64;

/// Text that is safe to print in one line of a terminal.
std::string makePrintable(llvm::StringRef text) {
  std::string out = text.str();
  for (char &c : out)
    if (!llvm::isPrint(c))
      c = '?';
  return out;
}

/// Builds the document and stops at what json::parse would let through: deep
/// nesting and repeated keys.
class DocumentBuilder : public nlohmann::json_sax<json> {
public:
  json root;
  std::string problem;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string &) override {
    return add(value);
  }
  bool string(std::string &value) override { return add(std::move(value)); }
  bool binary(json::binary_t &) override { return false; }
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string &name) override {
    if (stack.back()->contains(name)) {
      problem = "key " + printValue(name) + " appears twice in one object";
      return false;
    }
    pendingKey = std::move(name);
    return true;
  }

  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
    problem = "not valid JSON: " +
              makePrintable(llvm::StringRef(error.what()).split("] ").second);
    return false;
  }

private:
  /// Open containers, innermost last. A container changes only while it is
  /// the innermost, so the pointers above it stay valid.
  std::vector<json *> stack;
  std::string pendingKey;

  json *place(json value) {
    if (stack.empty()) {
      root = std::move(value);
      return &root;
    }
    json &parent = *stack.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[pendingKey] = std::move(value));
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json container) {
    if (stack.size() == maxDepth) {
      problem = "nested deeper than 64 levels";
      return false;
    }
    stack.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack.pop_back();
    return true;
  }
};

std::string printNumber(double value) { return json(value).dump(); }

std::string describe(IntRange range) {
  return ("an integer in " + llvm::Twine(range.low) + ".." +
          llvm::Twine(range.high))
      .str();
}

std::string describe(NumberRange range) {
  return "a number in " + std::string(range.closed ? "[" : "(") +
         printNumber(range.low) + ", " + printNumber(range.high) + "]";
}

bool contains(NumberRange range, double value) {
  return value <= range.high &&
         (range.closed ? value >= range.low : value > range.low);
}

} // namespace

void Diagnostic::report(const llvm::Twine &text) {
  if (message.empty())
    message = (file + ": " + text).str();
}

llvm::Error Diagnostic::takeError() {
  if (message.empty())
    return llvm::Error::success();
  return llvm::createStringError(message);
}

std::string cleave::frontend::printValue(const json &value) {
  constexpr size_t limit = 80;
  // Containers are named, not printed: they may be as large as the file.
  if (value.is_object())
    return "{...}";
  if (value.is_array())
    return "[...]";
  if (value.is_string() && value.get_ref<const std::string &>().size() > limit)
    return printValue(value.get_ref<const std::string &>().substr(0, 60)) +
           "...";
  return value.dump(-1, ' ', /*ensure_ascii=*/true,
                    json::error_handler_t::replace);
}

llvm::Expected<json> cleave::frontend::parseJson(llvm::StringRef text,
                                                 llvm::StringRef file) {
  if (text.size() > maxBytes)
    return llvm::createStringError(file + ": " + llvm::Twine(text.size()) +
                                   " bytes; legal: at most 16 MiB");
  std::string quoted;
  if (text.contains("NaN") || text.contains("Infinity"))
    text = quoted = quoteNonFinite(text);
  DocumentBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return llvm::createStringError(file + ": " + builder.problem);
  return std::move(builder.root);
}

ObjectReader::ObjectReader(const json &object, std::string path,
                           Diagnostic &diagnostic)
    : object(object), path(std::move(path)), diagnostic(diagnostic) {}

bool ObjectReader::has(llvm::StringRef key) const {
  auto it = object.find(key.str());
  return it != object.end() && !it->is_null();
}

const json *ObjectReader::find(llvm::StringRef key) {
  read.insert(key.str());
  auto it = object.find(key.str());
  return it == object.end() ? nullptr : &*it;
}

int64_t ObjectReader::getInteger(llvm::StringRef key, IntRange legal) {
  if (!object.contains(key.str())) {
    failKey(key, "is missing; legal: " + describe(legal));
    return legal.low;
  }
  if (std::optional<int64_t> value = getInteger(key, legal, std::nullopt))
    return *value;
  fail(key, "is not an integer; legal: " + describe(legal));
  return legal.low;
}

std::optional<int64_t>
ObjectReader::getInteger(llvm::StringRef key, IntRange legal,
                         std::optional<int64_t> otherwise) {
  const json *value = find(key);
  if (!value)
    return otherwise;
  if (value->is_null())
    return std::nullopt;
  if (!value->is_number_integer()) {
    fail(key, "is not an integer; legal: " + describe(legal));
    return legal.low;
  }
  // What exceeds int64 is stored as unsigned.
  bool huge = value->is_number_unsigned() &&
              value->get<uint64_t>() > uint64_t(legal.high);
  if (huge || value->get<int64_t>() < legal.low ||
      value->get<int64_t>() > legal.high) {
    fail(key, "is out of range; legal: " + describe(legal));
    return legal.low;
  }
  return value->get<int64_t>();
}

double ObjectReader::requireNumber(llvm::StringRef key, NumberRange legal) {
  if (!object.contains(key.str()))
    failKey(key, "is missing; legal: " + describe(legal));
  return getNumber(key, legal, legal.high);
}

double ObjectReader::getNumber(llvm::StringRef key, NumberRange legal,
                               double otherwise) {
  const json *value = find(key);
  if (!value)
    return otherwise;
  if (!value->is_number()) {
    fail(key, "is not a number; legal: " + describe(legal));
    return otherwise;
  }
  if (!contains(legal, value->get<double>())) {
    fail(key, "is out of range; legal: " + describe(legal));
    return otherwise;
  }
  return value->get<double>();
}

std::optional<double> ObjectReader::getNumber(llvm::StringRef key,
                                              NumberRange legal) {
  if (has(key))
    return getNumber(key, legal, legal.high);
  find(key);
  return std::nullopt;
}

bool ObjectReader::getBool(llvm::StringRef key, bool otherwise) {
  const json *value = find(key);
  if (!value)
    return otherwise;
  if (!value->is_boolean()) {
    fail(key, "is not a boolean; legal: true, false");
    return otherwise;
  }
  return value->get<bool>();
}

std::string ObjectReader::getString(llvm::StringRef key,
                                    llvm::StringRef otherwise) {
  const json *value = find(key);
  if (!value || value->is_null())
    return otherwise.str();
  if (!value->is_string()) {
    fail(key, "is not a string");
    return otherwise.str();
  }
  return value->get<std::string>();
}

void ObjectReader::fail(llvm::StringRef key, const llvm::Twine &message) {
  auto it = object.find(key.str());
  failKey(key, ": value " +
                   (it == object.end() ? "(absent)" : printValue(*it)) + " " +
                   message);
}

void ObjectReader::failKey(llvm::StringRef key, const llvm::Twine &message) {
  std::string text = message.str();
  diagnostic.report("key " + printValue(path + key.str()) +
                    (text.starts_with(":") ? "" : " ") + text);
}

void ObjectReader::checkUnread(llvm::ArrayRef<llvm::StringRef> harmless,
                               llvm::ArrayRef<llvm::StringRef> numerics) {
  for (const auto &[key, value] : object.items()) {
    bool off = value.is_null() || (value.is_boolean() && !value.get<bool>());
    if (off || read.count(key) || llvm::is_contained(harmless, key))
      continue;
    if (llvm::is_contained(numerics, key))
      fail(key, "is not supported: it may change what the model computes");
    else if (diagnostic.isStrict())
      fail(key, "is read by nobody; without --strict it is ignored");
    else
      diagnostic.ignored.push_back(path + key);
  }
}
