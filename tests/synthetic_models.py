"""Models of the full-scale study with random weights and a small width. Architecture, numbers of
layers and heads, kind of tokenizer and file names are those of the published models.

What a repository holds follows the published files: the names of tensors in `model.safetensors`
(BERT's layer norms have `gamma` and `beta`; GPT-2's have no prefix, and the causal mask is among
them), and a minimal `tokenizer_config.json`, so that its class decides on special tokens.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import models as tokenizer_models

from tests.synthetic_texts import stories

WIDTH = 48
INNER = 96
VOCABULARY = 2000
HEADS = 12

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'\"()-%—“”"

SIZES = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": INNER}
Tensors = dict[str, torch.Tensor]


def unchanged(name: str) -> str:
    return name


class Architecture(NamedTuple):
    """How a model is built and saved.

    Attributes:
        config: its configuration class and what differs from the class's own values.
        model: the class whose weights its repository holds.
        tokenizer: trains its tokenizer.
        settings: its `tokenizer_config.json`.
        rename: name of a tensor in the repository, from transformers' own; None: it is left out.
        lower: whether texts become lower case.
    """

    config: Callable[..., Any]
    model: Any
    tokenizer: Callable[[bool], Tokenizer]
    settings: dict[str, Any]
    rename: Callable[[str], str | None] = unchanged
    lower: bool = False


def word_piece(
    lower: bool, special: str = "[PAD] [UNK] [CLS] [SEP] [MASK]", types: int = 1
) -> Tokenizer:
    """BERT's tokenizer; MPNet's has other special tokens, and no second token type."""
    names = special.split()
    _, unknown, first, last, _ = names
    pieces = [*names, *word_pieces(lower, VOCABULARY - len(names))]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(tokenizer_models.WordPiece(vocabulary, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(names)
    ids = [(token, tokenizer.token_to_id(token)) for token in (first, last)]
    middle = f"{last} " if types == 0 else ""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} {middle}$B:{types} {last}:{types}",
        special_tokens=ids,
    )
    return tokenizer


def word_pieces(lower: bool, n: int) -> list[str]:
    """Return characters, the most frequent words, and the most frequent word endings, marked by
    ##. (The trainer of `tokenizers` is not deterministic.)
    """
    text = stories()
    counts = Counter(re.findall(r"\w+|[^\w\s]", text.lower() if lower else text))
    whole_words = sorted(counts, key=lambda word: (-counts[word], word))
    characters = sorted(set("".join(counts)))
    ends: Counter[str] = Counter()
    for word in counts:
        ends.update(word[-length:] for length in (2, 3) if len(word) > length)
    endings = sorted(ends, key=lambda end: (-ends[end], end))[:300]
    pieces = [*characters, *(f"##{piece}" for piece in (*characters, *endings)), *whole_words]
    return list(dict.fromkeys(pieces))[:n]


mpnet_word_piece = partial(word_piece, special="<pad> [UNK] <s> </s> <mask>", types=0)


def byte_pairs(special: list[str]) -> Tokenizer:
    """Train byte-level BPE, as GPT-2 and RoBERTa use it: a blank belongs to the word after it."""
    tokenizer = Tokenizer(tokenizer_models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(stories().split("\n"), trainer)
    return tokenizer


def gpt2_pairs(_: bool) -> Tokenizer:
    """GPT-2's tokenizer: one special token, no padding token; nothing is added to a text."""
    tokenizer = byte_pairs(["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def roberta_pairs(_: bool) -> Tokenizer:
    """RoBERTa's tokenizer: special tokens <s> and </s>, and <pad> with id 1."""
    tokenizer = byte_pairs(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def gpt_pairs(_: bool) -> Tokenizer:
    """OpenAI GPT's tokenizer: lower case, words end with </w>; <unk> is the only special token."""
    merges = word_merges(VOCABULARY // 2)
    pieces = ["<unk>", *dict.fromkeys(c + end for c in CHARACTERS for end in ("", "</w>"))]
    pieces += [a + b for a, b in merges]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(
        tokenizer_models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix="</w>")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.add_special_tokens(["<unk>"])
    return tokenizer


def word_merges(n: int) -> list[tuple[str, str]]:
    """Return BPE merges that build the most frequent words letter by letter. (The trainer of
    `tokenizers` breaks ties in a random order.)
    """
    counts = Counter(stories().lower().split())
    merges: dict[tuple[str, str], None] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        if len(merges) >= n:
            break
        if set(word) <= set(CHARACTERS):
            for i in range(1, len(word)):
                merges[word[:i], word[i] + "</w>" * (i == len(word) - 1)] = None
    return list(merges)


def sentence_pieces(_: bool) -> Tokenizer:
    """ALBERT's tokenizer: SentencePiece unigrams, with ▁ at the beginning of a word."""
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [(token, 0.0) for token in special] + unigrams(VOCABULARY - len(special))
    tokenizer = Tokenizer(tokenizer_models.Unigram(pieces, unk_id=1))
    steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    tokenizer.normalizer = normalizers.Sequence([*quotes, *steps])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def unigrams(n: int) -> list[tuple[str, float]]:
    """Return pieces of words, and all characters, with their log frequencies. (The trainer of
    `tokenizers` is not deterministic.)
    """
    counts: Counter[str] = Counter()
    for word in stories().lower().split():
        marked = f"▁{word}"
        for length in (1, 2, 3, 4, len(marked)):
            counts.update(marked[i : i + length] for i in range(len(marked) - length + 1))
    total = counts.total()
    characters = {piece for piece in counts if len(piece) == 1}
    order = sorted(counts, key=lambda piece: (piece not in characters, -counts[piece], piece))
    return [(piece, round(math.log(counts[piece] / total), 6)) for piece in order[:n]]


def _as_tensorflow(name: str) -> str:
    """Rename BERT's layer norms as the conversion from TensorFlow named them."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    )


def _without_gpt_prefix(name: str) -> str | None:
    """Remove the prefix; leave out the head, which shares the embeddings' weights."""
    return None if name.startswith("lm_head") else name.removeprefix("transformer.")


def bert(layers: int, lower: bool) -> Architecture:
    """BERT, as google-bert publishes it."""
    sizes = {**SIZES, "num_hidden_layers": layers}
    return Architecture(
        partial(transformers.BertConfig, **sizes, architectures=["BertForMaskedLM"]),
        transformers.BertForPreTraining,
        word_piece,
        {"do_lower_case": lower, "model_max_length": 512},
        _as_tensorflow,
        lower,
    )


def sentence_bert(layers: int) -> Architecture:
    """A BERT of sentence-transformers: no heads; special tokens are named in the settings."""
    names = ("pad", "unk", "cls", "sep", "mask")
    settings = {f"{name}_token": f"[{name.upper()}]" for name in names}
    settings |= {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer"}
    plain = bert(layers, True)
    return plain._replace(model=transformers.BertModel, rename=unchanged, settings=settings)


def distilbert(lower: bool) -> Architecture:
    """DistilBERT: no token types; its configuration has other field names."""
    sizes = {"dim": WIDTH, "n_layers": 6, "n_heads": HEADS, "hidden_dim": INNER}
    return Architecture(
        partial(transformers.DistilBertConfig, **sizes, architectures=["DistilBertForMaskedLM"]),
        transformers.DistilBertForMaskedLM,
        word_piece,
        {"do_lower_case": lower, "model_max_length": 512},
        lower=lower,
    )


def roberta(layers: int, model: Any = transformers.RobertaForMaskedLM) -> Architecture:
    """RoBERTa: one token type, positions start at 2."""
    sizes = {**SIZES, "num_hidden_layers": layers, "max_position_embeddings": 514}
    config = partial(transformers.RobertaConfig, **sizes, type_vocab_size=1, layer_norm_eps=1e-5)
    return Architecture(
        partial(config, architectures=["RobertaForMaskedLM"]),
        model,
        roberta_pairs,
        {"model_max_length": 512},
    )


def albert() -> Architecture:
    """ALBERT: all layers share weights, embeddings are narrower than layers."""
    sizes = {**SIZES, "num_hidden_layers": 12, "embedding_size": WIDTH // 2}
    return Architecture(
        partial(transformers.AlbertConfig, **sizes, architectures=["AlbertForMaskedLM"]),
        transformers.AlbertForMaskedLM,
        sentence_pieces,
        {"model_max_length": 512},
        lower=True,
    )


def mpnet() -> Architecture:
    """MPNet, as sentence-transformers publishes it: also with relative positions."""
    sizes = {**SIZES, "num_hidden_layers": 12, "max_position_embeddings": 514}
    return Architecture(
        partial(transformers.MPNetConfig, **sizes, architectures=["MPNetForMaskedLM"]),
        transformers.MPNetModel,
        mpnet_word_piece,
        {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "MPNetTokenizer"},
        lower=True,
    )


GPT_SIZES = {"n_embd": WIDTH, "n_layer": 12, "n_head": HEADS}


def gpt2() -> Architecture:
    """GPT-2: no padding token, 1,024 positions."""
    sizes = {**GPT_SIZES, "bos_token_id": 0, "eos_token_id": 0}
    return Architecture(
        partial(transformers.GPT2Config, **sizes, architectures=["GPT2LMHeadModel"]),
        transformers.GPT2LMHeadModel,
        gpt2_pairs,
        {"model_max_length": 1024},
        _without_gpt_prefix,
    )


def gpt() -> Architecture:
    """OpenAI GPT: no final layer norm, no padding token, no special token at either end."""
    return Architecture(
        partial(transformers.OpenAIGPTConfig, **GPT_SIZES, architectures=["OpenAIGPTLMHeadModel"]),
        transformers.OpenAIGPTLMHeadModel,
        gpt_pairs,
        {"model_max_length": 512},
        _without_gpt_prefix,
        lower=True,
    )


ARCHITECTURES: dict[str, Architecture] = {
    "all-MiniLM-L6-v2": sentence_bert(6),
    "all-mpnet-base-v2": mpnet(),
    "all-distilroberta-v1": roberta(6, transformers.RobertaModel),
    "bert-base-cased": bert(12, lower=False),
    "bert-base-uncased": bert(12, lower=True),
    "distilbert-base-cased": distilbert(lower=False),
    "distilbert-base-uncased": distilbert(lower=True),
    "roberta-base": roberta(12),
    "albert-base-v2": albert(),
    "openai-gpt": gpt(),
    "gpt2": gpt2(),
}
"""Architecture of each model, by its id in the registry."""


def write(name: str, folder: Path) -> None:
    """Write a model's repository: weights by transformers' own initialization, seed 0."""
    architecture = ARCHITECTURES[name]
    folder.mkdir(parents=True)
    tokenizer = architecture.tokenizer(architecture.lower)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = json.dumps(architecture.settings)
    (folder / "tokenizer_config.json").write_text(settings + "\n", "utf8")
    config = architecture.config(vocab_size=tokenizer.get_vocab_size())
    torch.manual_seed(0)
    model = architecture.model(config)
    config.to_json_file(folder / "config.json")
    named = {architecture.rename(key): value for key, value in model.state_dict().items()}
    tensors = {key: value.clone() for key, value in named.items() if key is not None}
    if name in ("gpt2", "openai-gpt"):
        tensors |= _causal_masks(config)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _causal_masks(config: Any) -> Tensors:
    """Return the mask buffers that older versions of transformers saved."""
    n = config.n_positions
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool)).view(1, 1, n, n)
    return {f"h.{layer}.attn.bias": mask.clone() for layer in range(config.n_layer)}
