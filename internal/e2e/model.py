"""Makes a small model with random weights, and a tokenizer for it, from nothing:

    model.py DIR

What it says is noise. What it leaves in a cache, and what the server says of that, is
as good as a large one's.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
SPECIAL = ["<s>", "</s>", "<|turn|>"]

# A conversation's text is a prefix of what it is one turn later.
TEMPLATE = (
    "{{ bos_token }}"
    "{% for m in messages %}<|turn|>{{ m['role'] }}\n{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)

# Enough to learn some merges of letters from, so that a text's tokens depend on what
# stands beside what, as with any tokenizer.
TEXT = [
    "the quick brown fox jumps over the lazy dog while another one sleeps",
    "you are a careful assistant and answer in one sentence unless asked for more",
    "a block of the cache holds the keys and values of consecutive tokens",
    "route the request to the server which has most of the prompt",
]


def tokenizer() -> PreTrainedTokenizerFast:
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=t,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        additional_special_tokens=["<|turn|>"],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def model() -> LlamaForCausalLM:
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=4096,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    ).to(torch.bfloat16)


if __name__ == "__main__":
    torch.set_num_threads(1)
    tokenizer().save_pretrained(sys.argv[1])
    model().save_pretrained(sys.argv[1])
