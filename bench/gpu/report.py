"""What was measured, as Markdown."""
import trajectories


def show(number):
    return "-" if number is None else f"{number:.3g}"


def show_loss(number):
    return "nan" if number is None else f"{number:.4f}"


def make_table(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join(
            str(cell).replace("|", "\\|").replace("\n", " ")
            for cell in row) + " |")
    return "\n".join(lines) + "\n"


def format_report(results):
    machine = results["machine"]
    device = machine.get("name", "no GPU")
    text = f"# Training steps on {device}, {machine['date']}\n\n"
    facts = [f"{key} {value}" for key, value in machine.items()
             if key not in ("name", "date", "device") and value]
    text += "; ".join(facts) + ".\n\n"
    text += f"`{results['command']}`, {results['seconds']:.0f} s. "
    text += f"Executables: {results['cleave']}.\n"
    if results.get("launcher"):
        text += ("\n**Executables ran through a launcher, "
                 f"`{results['launcher']}`: unless it is one of GPUs, no figure "
                 "below is a GPU's.**\n")
    ceilings = results["ceilings"]
    if "copy_bytes_per_s" in ceilings:
        text += (f"\nA copy of 4 GiB: {ceilings['copy_bytes_per_s'] / 1e12:.2f}"
                 f" TB/s, read and written. A product of 8192 x 8192 x 8192 in "
                 f"bf16, random: {ceilings['matmul_flops_per_s'] / 1e12:.0f} "
                 f"TFLOP/s, over two seconds "
                 f"{ceilings['long_matmul_flops_per_s'] / 1e12:.0f}.\n")
    timed = [model for model in results["models"]
             if any(iterate_timings(model))]
    if timed:
        text += "\n" + format_summary(timed) + format_steps(timed)
    text += format_training([model for model in results["models"]
                             if "train" in model])
    if results["goldens"]:
        text += format_goldens(results["goldens"])
    if results["tests"]:
        text += "\n## Tests\n\n" + make_table(
            ["test", "", "s", "last line"],
            [[f"`{t['command']}`", t["failed"] or "passed",
              f"{t['seconds']:.1f}", " ".join(t["last"][-1:])]
             for t in results["tests"]])
    for model in results["models"]:
        if "profile" in model:
            text += format_profile(model)
    missing = list(results["not_measured"])
    for model in results["models"]:
        for label, entry in iterate_runs(model):
            if entry.get("failed"):
                missing.append([f"{label} of {model['name']}",
                                entry["failed"]])
    if missing:
        text += "\n## Not measured\n\n" + "".join(
            f"- {what}: {why}\n" for what, why in missing)
    commands = [f"{label} of {model['name']}: `{entry['command']}`"
                for model in results["models"]
                for label, entry in iterate_runs(model)
                if entry.get("command")]
    if commands:
        text += "\n## Commands\n\n" + "".join(f"- {c}\n" for c in commands)
    return text


def iterate_timings(model):
    for key, label in (("cleave", "Cleave"), ("cleave_again", "Cleave again")):
        if key in model:
            yield label, model[key]
    for variant, entry in model["torch"].items():
        yield f"torch {variant}", entry


def iterate_runs(model):
    yield from iterate_timings(model)
    for name, entry in model.get("train", {}).get("runs", {}).items():
        yield f"{name} in training", entry


def format_steps(models):
    text = ("\n## Steps\n\nMedian of the steps after the first ones, and the "
            "10th and 90th percentile. Ratios are of tokens a second. MFU is "
            "causal: products and the half of attention that the mask leaves, "
            "over 989 TFLOP/s.\n")
    for model in models:
        cleave = model.get("cleave", {})
        text += (f"\n### {model['name']}: {model['global_batch']} x "
                 f"{model['seq_len']} tokens\n\n")
        rows = []
        for label, entry in iterate_timings(model):
            if "tokens_per_s" not in entry:
                why = entry.get("failed") or "no figures"
                rows.append([label, why[:160]] + [""] * 9)
                continue
            ratio = (cleave["tokens_per_s"] / entry["tokens_per_s"]
                     if "tokens_per_s" in cleave and not
                     label.startswith("Cleave") else None)
            micro = entry.get("micro_batch", model["micro_batch"])
            if label.startswith("torch"):
                label += " (" + ", ".join(
                    [entry["backend"].removesuffix("_ATTENTION").lower()]
                    + (["keys and values repeated"]
                       if entry["gqa"] == "repeated" else [])
                    + (["bf16 throughout"]
                       if entry["precision"] == "bf16" else [])) + ")"
            memory = entry.get("peak_bytes") or entry.get("arena_bytes")
            rows.append(
                [label, f"{entry['seconds'] * 1e3:.1f} "
                 f"({entry['seconds_low'] * 1e3:.1f} to "
                 f"{entry['seconds_high'] * 1e3:.1f})",
                 f"{entry['tokens_per_s']:,.0f}",
                 f"{100 * entry['mfu']:.1f} %",
                 f"{ratio:.3f}" if ratio else "",
                 f"{100 * entry['host_seconds'] / entry['seconds']:.2f} %"
                 if "host_seconds" in entry else "", micro,
                 f"{memory / 2**30:.1f}" if memory else "",
                 f"{entry['gpu_memory_mib'] / 1024:.1f}"
                 if "gpu_memory_mib" in entry else "",
                 f"{entry['sm_mhz']:.0f} / {entry['watts']:.0f}"
                 if "sm_mhz" in entry else "",
                 f"{show_loss(entry['first_loss'])} to "
                 f"{show_loss(entry['last_loss'])}"])
        text += make_table(
            ["", "ms a step", "tokens/s", "MFU", "Cleave / this",
             "GPU waits for the host", "micro-batch",
             "GiB planned or allocated", "GiB in use", "SM MHz / W", "loss"],
            rows)
        text += format_startup(model)
    return text


def format_startup(model):
    parts = []
    for label, entry in iterate_timings(model):
        if "compile_seconds" in entry:
            parts.append(f"{label}: model {entry['build_seconds']:.1f} s, first "
                         f"step {entry['compile_seconds']:.1f} s, of "
                         f"{entry['process_seconds']:.1f} s in all")
        elif "all_steps_seconds" in entry:
            before = entry["process_seconds"] - entry["all_steps_seconds"]
            parts.append(f"{label}: {before:.1f} s outside of steps, first "
                         f"step {entry['first_step_seconds']:.2f} s, of "
                         f"{entry['process_seconds']:.1f} s in all")
    return "\n" + ". ".join(parts) + ".\n" if parts else ""


def format_training(models):
    if not models:
        return ""
    text = ("\n## Training beside the CPU and PyTorch\n\nFrom the same weights, "
            "on the same text, at the same learning rates. Differences are the "
            "largest of so many steps, relative to the peer; of the mean loss "
            f"those of each {trajectories.WINDOW} steps. The spread is "
            "PyTorch's own difference from further trainings of its, whose "
            "weights were changed as rounding to bf16 may change them; where it "
            f"was measured, {trajectories.SPREADS} times that much may be "
            "between Cleave and PyTorch.\n")
    for model in models:
        train = model["train"]
        text += (f"\n### {model['name']}: {train['steps']} steps of "
                 f"{train['global_batch']} x {train['seq_len']} tokens\n\n")
        if train["failed"]:
            text += f"**Failed: {train['failed']}.**\n\n"
        if train["differences"]:
            text += make_table(
                ["beside", "", "steps", "difference", "spread", "at most", ""],
                [[each["peer"], each["what"], each["steps"],
                  show(each["difference"]), show(each["spread"]),
                  show(each["bound"]),
                  "passed" if each["difference"] <= each["bound"]
                  else "failed"] for each in train["differences"]]) + "\n"
        if train["runs"]:
            text += format_losses(train) + "\n" + ", ".join(
                f"{name}: {run['process_seconds']:.1f} s"
                for name, run in train["runs"].items()) + ".\n"
    return text


def format_losses(train):
    runs = {}
    for name, run in train["runs"].items():
        if name != "weights" and run.get("losses"):
            runs[name] = run
        for number, again in enumerate(run.get("again", []), 1):
            runs[f"{name} again {number}"] = again
    last = train["steps"] - 1
    steps = sorted({0, 1, 2, *range(0, last, max(1, last // 10)), last})
    return "Loss and gradient norm:\n\n" + make_table(
        ["step", *runs],
        [[step, *(f"{show_loss(run['losses'][step])}, "
                  f"{show_loss(run['grad_norms'][step])}"
                  if step < len(run["losses"]) else ""
                  for run in runs.values())]
         for step in steps if step <= last])


def format_goldens(goldens):
    rows = []
    for golden in goldens:
        if "loss" not in golden:
            rows.append([golden["name"], "", "", "", "", golden["failed"]])
            continue
        rows.append(
            [golden["name"], golden["steps"],
             f"{show(golden['loss'])} (at most {show(golden['loss_bound'])})",
             f"{show(golden['grad_norm'])} (at most "
             f"{show(golden['grad_norm_bound'])})",
             f"{show(golden.get('reference_loss'))} (at most "
             f"{show(golden['reference_bound'])})",
             golden["failed"] or "passed"])
    return ("\n## The device beside the CPU\n\nThe same executable with both, "
            "from the same weights and tokens; largest relative differences "
            "over the steps.\n\n"
            + make_table(["case", "steps", "loss", "gradient norm",
                          "loss beside transformers'", ""], rows))


def format_profile(model):
    profile = model["profile"]
    text = f"\n## Where a step of {model['name']} goes\n\n"
    if profile.get("failed"):
        return text + f"Not measured: {profile['failed']}.\n"
    text += (f"Traced steps take {profile['span_seconds'] * 1e3:.2f} ms, "
             f"{profile['busy_seconds'] * 1e3:.2f} ms of them in instructions; "
             f"the bounds of these sum to "
             f"{profile['bound_seconds'] * 1e3:.2f} ms. An instruction's bound "
             f"is the longer of its FLOPs and its operands' bytes at the rates "
             f"of a matrix product and a copy ({profile['ceilings']}). "
             f"`cleave estimate` predicted "
             f"{profile['predicted_seconds'] * 1e3:.2f} ms, for "
             f"{profile['predicted_for']}.\n\n")
    text += "Kinds of instructions:\n\n" + format_times(
        profile["kinds"][:30], format_prediction)
    text += ("\nThe instructions that take most of a step, those of all layers "
             "as one:\n\n" + format_times(profile["longest"]))
    return text


def format_prediction(row):
    seconds = row["predicted_seconds"]
    if seconds is None or not row["step_seconds"]:
        return {"predicted": "", "predicted / time": ""}
    return {"predicted": f"{seconds * 1e3:.3f}",
            "predicted / time": f"{seconds / row['step_seconds']:.2f}"}


def format_times(rows, get_more=lambda row: {}):
    """`get_more`: further cells of a row, by their columns."""
    return make_table(
        ["phase", "", "ms a step", "share", "runs a step", "us", "TFLOP/s",
         "GB/s", "bound, ms a step", "by", "bound / time",
         *(get_more(rows[0]) if rows else [])],
        [[row["phase"], row["name"], f"{row['step_seconds'] * 1e3:.3f}",
          f"{100 * row['share']:.1f} %", f"{row['runs_per_step']:.0f}",
          f"{row['median_seconds'] * 1e6:.1f}",
          f"{row['flops_per_s'] / 1e12:.1f}" if row["flops_per_s"] else "",
          f"{row['bytes_per_s'] / 1e9:.0f}" if row["bytes_per_s"] else "",
          f"{row['bound_seconds'] * 1e3:.3f}" if row["bound_by"] else "",
          row["bound_by"],
          f"{row['bound_seconds'] / row['step_seconds']:.2f}"
          if row["bound_by"] and row["step_seconds"] else "",
          *get_more(row).values()]
         for row in rows])


def format_summary(models):
    """A row for each model: what one looks for first."""
    rows = []
    for model in models:
        cleave = model.get("cleave", {})
        peers = {variant: entry for variant, entry in model["torch"].items()
                 if "tokens_per_s" in entry}
        rate = cleave.get("tokens_per_s")
        row = [model["name"], f"{rate:,.0f}" if rate else
               cleave.get("failed", "not measured")[:80],
               f"{100 * cleave['mfu']:.1f} %" if rate else ""]
        best = max(peers.items(), default=None,
                   key=lambda item: item[1]["tokens_per_s"])
        for peer in (("default", peers.get("default")), best):
            variant, entry = peer or ("", None)
            if not entry:
                row += ["not measured", ""]
                continue
            peer_rate = entry["tokens_per_s"]
            row += [f"{peer_rate:,.0f} ({variant}, "
                    f"{100 * entry['mfu']:.1f} %)",
                    f"{rate / peer_rate:.3f}" if rate else ""]
        rows.append(row)
    return make_table(["model", "Cleave, tokens/s", "MFU",
                       "torch.compile by default", "Cleave / it",
                       "best of torch", "Cleave / it"], rows)
