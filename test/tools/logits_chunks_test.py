#!/usr/bin/env python3
"""Logits in chunks of the tokens: whatever the layout, a step computes what it
does with whole ones, takes the less memory the more chunks there are, and has the
same bits on the CUDA machine that is made of software (test/cuda)."""
import json
import os
import unittest

from support import GOLDEN, TOOLS, ToolTest, make_dataset

SIMULATE = os.path.join(TOOLS, "..", "test", "cuda", "simulate")
SHAPE = ["--seq-len", "64", "--global-batch", "8"]
STEPS = 3
RUN = ["--data", "set", "--steps", str(STEPS)]
# Ranks, and how they share the model.
LAYOUTS = [
    (1, []),
    (1, ["--micro-batch", "2"]),
    (2, ["--tp", "2", "--micro-batch", "4"]),
    (4, ["--tp", "2", "--dp", "2", "--zero", "3", "--sequence-parallel",
         "--micro-batch", "2", "--recompute", "full"]),
    (2, ["--pp", "2", "--micro-batch", "2"]),
    (2, ["--pp", "2", "--pipeline-schedule", "gpipe", "--micro-batch", "2"]),
    (2, ["--pp", "2", "--pipeline-schedule", "zb-h1", "--micro-batch", "2"]),
    (4, ["--pp", "2", "--tp", "2", "--sequence-parallel", "--micro-batch", "2",
         "--zero", "1"]),
]
# A vocabulary of its own for the head, and one that is the embedding's.
FAMILIES = ["llama-mha", "llama3-gqa-tied"]


class LogitsChunksTest(ToolTest):
    def setUp(self):
        super().setUp()
        index, tokens = make_dataset([300, 50, 650, 2000])
        self.write("set.idx", index)
        self.write("set.bin", tokens)

    def build(self, family, *flags):
        self.compile("train", *flags, "-q", model=f"{GOLDEN}/{family}",
                     shape=SHAPE)

    def test_layouts_train_as_with_whole_logits(self):
        """And every pass keeps what a small model of the kind computes."""
        for i, (_, flags) in enumerate(LAYOUTS):
            family = FAMILIES[i % 2]
            with self.subTest(family=family, flags=" ".join(flags)):
                self.build(family, *flags, "--logits-chunks", "1")
                want = self.losses("./train", *RUN)
                self.build(family, *flags, "--logits-chunks", "2", "--check")
                got = self.losses("./train", *RUN)
                self.assertEqual(len(got), STEPS)
                for loss, expected in zip(got, want, strict=True):
                    self.assertLess(abs(loss - expected), 1e-6 * expected)

    def test_streams_keep_the_bits(self):
        for ranks, flags in LAYOUTS:
            if ranks == 1:
                continue
            with self.subTest(flags=" ".join(flags)):
                self.build("llama-mha", *flags, "--logits-chunks", "4",
                           "--overlap", "always")
                self.assertEqual(
                    self.losses("./train", *RUN, "--stream-delays", "7"),
                    self.losses("./train", *RUN, "--serial"))

    def test_gradients_are_those_of_the_reference(self):
        for family in [*FAMILIES, "gpt2", "granite"]:
            for flags in (["--logits-chunks", "4"],
                          ["--logits-chunks", "3", "--tp", "2", "--dp", "2"],
                          ["--logits-chunks", "3", "--pp", "2",
                           "--micro-batch", "1"],
                          ["--logits-chunks", "2", "--dtype", "bf16"]):
                with self.subTest(family=family, flags=" ".join(flags)):
                    report = json.loads(self.run_tool(
                        "cleave", "parity", f"{GOLDEN}/{family}", *flags,
                        "--json"))
                    self.assertIs(report["holds"], True)

    def test_gpus_have_the_bits_of_cpus(self):
        for ranks, flags in LAYOUTS:
            with self.subTest(flags=" ".join(flags)):
                layout = flags or ["--dp", "1"]
                self.build("llama-mha", "--cluster", f"h200:{ranks}", *layout,
                           "--logits-chunks", "2")
                run = ["./train", *RUN, "--transport", "local", "--device"]
                self.assertEqual(
                    self.losses(SIMULATE, "--engine", "twin", *run, "cuda"),
                    self.losses(*run, "cpu"))

    def write_large(self):
        """Two layers, under a vocabulary of 2^15; bytes of the logits of 2048
        tokens in bf16."""
        self.write("large.json", {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"],
            "hidden_size": 128, "intermediate_size": 256,
            "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "vocab_size": 1 << 15,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "tie_word_embeddings": True})
        return 2048 * (1 << 15) * 2

    def compile_large(self, *flags):
        return json.loads(self.compile(
            "train", *flags, "--dtype", "bf16", "--micro-batch", "1", "--json",
            model="large.json",
            shape=["--seq-len", "2048", "--global-batch", "4"]))

    def test_memory(self):
        """Where most memory is in use there are logits and their gradient."""
        both = 2 * self.write_large()
        for flags, vocab_ranks in (
                ([], 1), (["--tp", "2", "--sequence-parallel"], 2),
                (["--pp", "2", "--pipeline-schedule", "1f1b"], 1)):
            with self.subTest(flags=" ".join(flags)):
                arenas = {chunks: self.compile_large(
                    *flags, "--logits-chunks", str(chunks))["arena_bytes"]
                    for chunks in (1, 2, 4, 8)}
                print(flags, arenas)
                for chunks in (2, 4, 8):
                    saved = arenas[chunks // 2] - arenas[chunks]
                    expected = both / vocab_ranks / chunks
                    # The weight's gradient is there earlier than it was.
                    self.assertLess(abs(saved - expected), 0.1 * expected)

    def test_logits_are_not_kept_between_passes(self):
        """Of a pipeline that computes all forward passes first."""
        logits = self.write_large()
        flags = ["--pp", "2", "--pipeline-schedule", "gpipe"]
        whole = self.compile_large(*flags, "--logits-chunks", "1")
        halves = self.compile_large(*flags, "--logits-chunks", "2")
        # Four micro-batches' and a gradient, and half of each.
        saved = whole["arena_bytes"] - halves["arena_bytes"]
        self.assertLess(abs(saved - 4 * logits), 0.1 * 4 * logits)

    def test_as_few_as_fit(self):
        """By themselves logits are in chunks where they have no room."""
        both = 2 * self.write_large()
        whole = self.compile_large()["arena_bytes"]

        def compile_for(room):
            # Of which a device keeps 1.5 GB, and buffers may have 95 %.
            self.write("cluster.json", {
                "version": 1, "nodes": 1, "devices_per_node": 1,
                "device": {"base": "h100-sxm", "name": "small",
                           "memory": {"value": 1.5e9 + room / 0.95,
                                      "unit": "byte", "source": "test"}},
                "levels": [{"size": 0, "link": "nvlink4"}]})
            return self.compile_large("--dp", "1", "--cluster",
                                      "cluster.json")["arena_bytes"]

        self.assertGreater(compile_for(1.05 * whole), 0.98 * whole)
        for chunks in (2, 4, 8):
            least = whole - both * (1 - 1 / chunks)
            # Half as many would have more than this room.
            room = least + 0.4 * both / chunks
            arena = compile_for(room)
            self.assertLess(arena, room)
            self.assertGreater(arena, least - 0.4 * both / chunks)

    def test_wrong_numbers(self):
        self.expect_error(
            ["cannot be done in 3 parts of its rows; legal are 1, 2, 4, 8, 16, "
             "32"], "cleave", "compile", f"{GOLDEN}/llama-mha", *SHAPE,
            "--logits-chunks", "3", "-o", "train")
        for wrong in ("0", "-1", "few", "1.5"):
            self.expect_error(
                [f'"{wrong}" is neither auto nor an integer in 1'], "cleave",
                "compile", f"{GOLDEN}/llama-mha", *SHAPE,
                f"--logits-chunks={wrong}", "-o", "train", code=2)


if __name__ == "__main__":
    unittest.main()
