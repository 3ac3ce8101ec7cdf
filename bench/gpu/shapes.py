"""What a config.json says of a model's sizes, and what a step of it computes."""

PEAK_BF16 = 989e12  # FLOP/s of an H100 SXM and an H200, dense, by data sheet


class Shape:
    """Sizes of a GPT-2 or a Llama, by its config.json."""

    def __init__(self, config):
        self.kind = config["model_type"]
        self.vocab = config["vocab_size"]
        self.std = config.get("initializer_range", 0.02)
        if self.kind == "gpt2":
            self.layers = config["n_layer"]
            self.hidden = config["n_embd"]
            self.heads = self.kv_heads = config["n_head"]
            self.head_dim = self.hidden // self.heads
            self.intermediate = config.get("n_inner") or 4 * self.hidden
            self.positions = config["n_positions"]
            self.eps = config["layer_norm_epsilon"]
            self.tied = config.get("tie_word_embeddings", True)
            if config.get("activation_function", "gelu_new") != "gelu_new":
                raise ValueError("expects \"activation_function\" gelu_new")
        elif self.kind == "llama":
            self.layers = config["num_hidden_layers"]
            self.hidden = config["hidden_size"]
            self.heads = config["num_attention_heads"]
            self.kv_heads = config.get("num_key_value_heads") or self.heads
            self.head_dim = (config.get("head_dim")
                             or self.hidden // self.heads)
            self.intermediate = config["intermediate_size"]
            self.eps = config["rms_norm_eps"]
            self.tied = config.get("tie_word_embeddings", False)
            self.rope_theta = config.get("rope_theta", 10000.0)
            self.rope_scaling = config.get("rope_scaling")
            if config.get("attention_bias") or config.get("mlp_bias"):
                raise ValueError("expects a model without biases")
        else:
            raise ValueError(f"expects model_type gpt2 or llama, got "
                             f"{self.kind}")

    def count_matmul_parameters(self):
        """Of weights that are multiplied by: the head is one, the embedding is
        none, so a tied one counts once."""
        attention = self.hidden * self.head_dim * (2 * self.heads
                                                   + 2 * self.kv_heads)
        matrices = 2 if self.kind == "gpt2" else 3
        mlp = matrices * self.hidden * self.intermediate
        return self.layers * (attention + mlp) + self.vocab * self.hidden

    def count_flops_per_token(self, seq_len):
        """Of causal MFU: three times the forward pass, and of attention only
        the half that the mask leaves."""
        attention = 6 * self.layers * self.heads * self.head_dim * seq_len
        return 6 * self.count_matmul_parameters() + attention

    def compute_mfu(self, tokens_per_s, seq_len):
        return tokens_per_s * self.count_flops_per_token(seq_len) / PEAK_BF16
