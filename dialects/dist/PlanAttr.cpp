//===- PlanAttr.cpp - A plan as an attribute of a module ------------------===//
#include "dialects/dist/PlanAttr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave;
namespace json = llvm::json;

/// JSON that a plan is written in has no other values.
static Attribute toAttribute(Builder &b, const json::Value &value) {
  if (const json::Object *object = value.getAsObject()) {
    NamedAttrList entries;
    for (const auto &[key, entry] : *object)
      entries.append(llvm::StringRef(key), toAttribute(b, entry));
    return entries.getDictionary(b.getContext());
  }
  if (const json::Array *array = value.getAsArray()) {
    SmallVector<Attribute> entries;
    for (const json::Value &entry : *array)
      entries.push_back(toAttribute(b, entry));
    return b.getArrayAttr(entries);
  }
  if (std::optional<int64_t> number = value.getAsInteger())
    return b.getI64IntegerAttr(*number);
  if (std::optional<bool> flag = value.getAsBoolean())
    return b.getBoolAttr(*flag);
  return b.getStringAttr(value.getAsString().value_or(""));
}

/// What is none of these becomes null, which no key of a plan allows.
static json::Value toJSON(Attribute attribute) {
  return llvm::TypeSwitch<Attribute, json::Value>(attribute)
      .Case([](DictionaryAttr dictionary) {
        json::Object object;
        for (NamedAttribute entry : dictionary)
          object[entry.getName().getValue()] = toJSON(entry.getValue());
        return json::Value(std::move(object));
      })
      .Case([](ArrayAttr array) {
        json::Array list;
        for (Attribute entry : array)
          list.push_back(toJSON(entry));
        return json::Value(std::move(list));
      })
      .Case([](BoolAttr flag) { return json::Value(flag.getValue()); })
      .Case([](IntegerAttr number) { return json::Value(number.getInt()); })
      .Case([](StringAttr text) { return json::Value(text.getValue()); })
      .Default([](Attribute) { return json::Value(nullptr); });
}

void dist::setPlan(ModuleOp module, const Plan &plan) {
  Builder b(module.getContext());
  module->setAttr(planName,
                  toAttribute(b, llvm::cantFail(json::parse(plan.toJSON()))));
}

llvm::Expected<std::optional<Plan>> dist::getPlan(ModuleOp module) {
  Attribute attribute = module->getAttr(planName);
  if (!attribute)
    return std::nullopt;
  if (!isa<DictionaryAttr>(attribute))
    return llvm::createStringError(planName + ": expects a dictionary");
  llvm::Expected<Plan> plan =
      parsePlan(llvm::formatv("{0}", toJSON(attribute)).str(), planName);
  if (!plan)
    return plan.takeError();
  return std::optional<Plan>(std::move(*plan));
}
