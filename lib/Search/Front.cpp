//===- Front.cpp - Time against memory and number of devices --------------===//
#include "Find.h"
#include "llvm/ADT/STLExtras.h"
#include <tuple>

using namespace cleave;

/// Adds the fastest layouts of less and less memory on one machine.
static void addFront(const Architecture &model, const Machine &machine,
                     SearchRequest request, int64_t count,
                     std::vector<Candidate> &front,
                     llvm::function_ref<void(int64_t)> report) {
  double limit = request.getMemoryLimit(machine);
  CostModel costs(model, machine, request.work, request.profile);
  double last = std::numeric_limits<double>::infinity();
  for (int64_t i = count; i > 0; --i) {
    report(count - i);
    request.memoryLimit = limit * double(i) / double(count);
    if (last <= request.memoryLimit)
      continue;
    SearchResult result = find(model, machine, request);
    if (result.best.empty())
      return;
    Candidate &best = result.best.front();
    best.estimate = costs.price(best.layout);
    last = best.estimate.memory.getTotal();
    front.push_back(std::move(best));
  }
}

llvm::Expected<std::vector<Candidate>>
cleave::computeFront(const Architecture &model, const Machine &machine,
                     const SearchRequest &request, int64_t count,
                     llvm::ArrayRef<int64_t> devices,
                     const Progress &progress) {
  SearchRequest fastest = request;
  fastest.objective = Objective::Time;
  fastest.top = 1;
  std::vector<Candidate> all;
  if (devices.empty())
    devices = machine.devices;
  for (auto [i, number] : llvm::enumerate(devices))
    addFront(model, resize(machine, number), fastest, count, all,
             [&, i = int64_t(i)](int64_t done) {
               if (progress)
                 progress(i * count + done, int64_t(devices.size()) * count);
             });
  if (all.empty()) {
    llvm::Expected<SearchResult> why = search(model, machine, fastest);
    return why ? llvm::createStringError("nothing fits on so few devices")
               : why.takeError();
  }
  std::vector<Candidate> front;
  auto noBetter = [](const Candidate &a, const Candidate &b) {
    return a.estimate.step >= b.estimate.step &&
           a.estimate.memory.getTotal() >= b.estimate.memory.getTotal() &&
           a.layout.getDevices() >= b.layout.getDevices();
  };
  for (size_t i = 0; i != all.size(); ++i) {
    bool dominated = false;
    for (size_t j = 0; j != all.size() && !dominated; ++j)
      dominated = i != j && noBetter(all[i], all[j]) &&
                  (j < i || !noBetter(all[j], all[i]));
    if (!dominated)
      front.push_back(all[i]);
  }
  llvm::sort(front, [](const Candidate &a, const Candidate &b) {
    auto getKey = [](const Candidate &each) {
      return std::tuple(each.estimate.step, each.layout.getDevices(),
                        each.estimate.memory.getTotal());
    };
    return getKey(a) < getKey(b);
  });
  return front;
}
