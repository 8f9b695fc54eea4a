# SPDX-License-Identifier: Apache-2.0
"""The zoo's table: a row a net. It imports neither torch nor tvm: the exporter's environment and
the bench's both read it. Test: bench/test_zoo.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

# In a row's settings: stands for the size that is exported.
SIZE = "size"

# What a net reads, by kind: argument, shape with b for the batch and s for the size, and whether it
# is indices. Numbers are normal random, indices lie below the row's vocabulary.
KINDS: dict[str, tuple[tuple[str, tuple[Any, ...], bool], ...]] = {
    "image": (("pixel_values", ("b", 3, "s", "s"), False),),
    "noise": (("noise", ("b", 100, 1, 1), False),),
    "grey": (("pixel_values", ("b", 1, "s", "s"), False),),
    "line": (("pixel_values", ("b", 1, 32, "s"), False),),
    "video": (("pixel_values", ("b", 3, 8, "s", "s"), False),),
    "tokens": (("input_ids", ("b", "s"), True),),
    "text pair": (("input_ids", ("b", "s"), True), ("decoder_input_ids", ("b", "s"), True)),
    "wave": (("input_values", ("b", "s"), False),),
    "one channel": (("input_values", ("b", 1, "s"), False),),
    "mel 80": (("input_features", ("b", 80, "s"), False),),
    "mel 128": (("input_values", ("b", "s", 128), False),),
    "mfcc": (("input_values", ("b", 1, "s", 10), False),),
    "series": (("past_values", ("b", "s", 7), False),),
    "points": (("points", ("b", 3, "s"), False),),
    "columns": (("columns", ("b", "s"), False),),
    "mixed columns": (("columns", ("b", "s"), False), ("categories", ("b", 8), True)),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A net: family, package, what of it (`make`), its sizes (the first is the usual one), the kind
    of its inputs, keywords for its constructor or configuration, how many values indices take.

    package: timm, torchvision, transformers, torch (torch_nets.py) or models (bench/models).
    """

    name: str
    family: str
    package: str
    make: str
    sizes: tuple[int, ...]
    kind: str = "image"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    vocabulary: int = 1000

    def shapes(self, size: int, batch: int) -> dict[str, tuple[int, ...]]:
        numbers = {"b": batch, "s": size}
        return {
            name: tuple(numbers.get(dim, dim) for dim in shape)
            for name, shape, _ in KINDS[self.kind]
        }

    def limits(self) -> dict[str, int]:
        """Return how many values each input takes that is indices."""
        return {name: self.vocabulary for name, _, is_index in KINDS[self.kind] if is_index}

    def settings_for(self, size: int) -> dict[str, Any]:
        return {key: size if value == SIZE else value for key, value in self.settings.items()}

    def file_name(self, size: int, batch: int, seed: int) -> str:
        """Return the name of its ONNX file: another row, size, batch or seed has another."""
        text = json.dumps([dataclasses.asdict(self), size, batch, seed], sort_keys=True)
        return f"{self.name}-{size}-b{batch}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.onnx"


def _timm(family: str, sizes: tuple[int, ...], names: str, **settings: Any) -> list[Row]:
    return [Row(name, family, "timm", name, sizes, settings=settings) for name in names.split()]


def _vision(family: str, sizes: tuple[int, ...], names: str, kind: str = "image") -> list[Row]:
    return [
        Row(f"tv_{name.rpartition('/')[2]}", family, "torchvision", name, sizes, kind)
        for name in names.split()
    ]


def _text(family: str, name: str, make: str, kind: str = "tokens", **settings: Any) -> Row:
    settings = {"vocab_size": 1000, **settings}
    return Row(name, family, "transformers", make, (64, 128), kind, settings)


def _ours(family: str, sizes: tuple[int, ...], names: str) -> list[Row]:
    return [Row(name, family, "models", name, sizes) for name in names.split()]


def _small(family: str, sizes: tuple[int, ...], kind: str, names: str) -> list[Row]:
    return [Row(name, family, "torch", name, sizes, kind) for name in names.split()]


_SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
_BERT = {**_SMALL, "intermediate_size": 1024}
_GPT = {"n_embd": 256, "n_layer": 4, "n_head": 4}
_PAIR = {
    "d_model": 256,
    **dict.fromkeys(("encoder_layers", "decoder_layers", "decoder_attention_heads"), 3 + 1),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 1024),
    "encoder_attention_heads": 4,
}
_WAVE = {**_BERT, "conv_dim": (64,) * 7, "num_conv_pos_embeddings": 32}

NETS: dict[str, Row] = {
    row.name: row
    for row in [
        *_timm(
            "plain",
            (224, 160),
            "resnet18 vgg11_bn darknet53 repvgg_a0 dla34 hrnet_w18_small selecsls42b resnetv2_50",
        ),
        *_vision("plain", (224, 160), "alexnet squeezenet1_1 googlenet"),
        *_timm("plain", (299, 203), "inception_v4 xception41"),
        *_ours("plain", (0,), "resnet50 inception_v3 resnet3d_18"),
        *_timm(
            "depthwise",
            (224, 160),
            "mobilenetv1_100 mobilenetv2_100 mnasnet_100 fbnetc_100 efficientnet_lite0 mixnet_s "
            "mobilenetv4_conv_small mobileone_s0 starnet_s1 hardcorenas_a",
        ),
        *_timm(
            "squeeze-and-excite",
            (224, 160),
            "efficientnet_b0 mobilenetv3_large_100 mobilenetv3_small_100 regnety_008 ghostnet_100 "
            "seresnet50 rexnet_100 efficientnetv2_rw_t tf_efficientnet_b0 lcnet_050 skresnet18 "
            "ecaresnet26t gcresnext26ts nfnet_l0",
        ),
        *_timm("grouped", (224, 160), "resnext50_32x4d regnetx_008 resnest14d"),
        *_vision("grouped", (224, 160), "shufflenet_v2_x1_0"),
        *_timm("dense", (224, 160), "densenet121 ese_vovnet19b_dw dpn68 hardcorenas_f"),
        *_small("transposed", (1,), "noise", "dcgan_generator"),
        *_small("transposed", (256, 128), "image", "unet autoencoder"),
        *_small("transposed", (96, 48), "grey", "fsrcnn espcn"),
        *_timm(
            "ViT",
            (224,),
            "vit_tiny_patch16_224 deit_tiny_distilled_patch16_224 cait_xxs24_224 "
            "xcit_nano_12_p16_224 levit_128s eva02_tiny_patch14_224 beit_base_patch16_224 "
            "crossvit_tiny_240",
        ),
        *_timm(
            "Swin",
            (224,),
            "swin_tiny_patch4_window7_224 swinv2_cr_tiny_ns_224 twins_svt_small pvt_v2_b0 "
            "mvitv2_tiny hiera_tiny_224 focalnet_tiny_srf",
        ),
        *_timm(
            "ConvNeXt",
            (224, 160),
            "convnext_atto convnextv2_atto inception_next_tiny poolformer_s12",
        ),
        *_timm(
            "hybrid",
            (256, 192),
            "mobilevit_xxs mobilevitv2_050 edgenext_xx_small fastvit_t8 efficientvit_b0 "
            "repvit_m0_9",
        ),
        *_timm(
            "hybrid",
            (224,),
            "efficientformer_l1 coatnet_nano_rw_224 maxvit_tiny_tf_224 tiny_vit_5m_224 "
            "efficientvit_m0",
        ),
        *_timm("hybrid", (256,), "botnet26t_256 lambda_resnet26t"),
        *_timm("MLP", (224,), "mixer_s16_224 resmlp_12_224 gmlp_ti16_224"),
        _text("BERT-like", "bert", "BertModel", **_BERT),
        _text("BERT-like", "roberta", "RobertaForSequenceClassification", **_BERT),
        _text("BERT-like", "albert", "AlbertModel", **_BERT, embedding_size=128),
        _text("BERT-like", "electra", "ElectraModel", **_BERT, embedding_size=128),
        _text("BERT-like", "distilbert", "DistilBertModel", dim=256, n_layers=4, n_heads=4,
              hidden_dim=1024),
        _text("BERT-like", "deberta_v2", "DebertaV2Model", **_BERT, relative_attention=True,
              pos_att_type=["p2c", "c2p"]),
        _text("BERT-like", "squeezebert", "SqueezeBertModel", **_BERT, embedding_size=256),
        _text("BERT-like", "mobilebert", "MobileBertModel", num_hidden_layers=6),
        _text("BERT-like", "convbert", "ConvBertModel", **_BERT, embedding_size=128),
        _text("BERT-like", "modernbert", "ModernBertModel", **_BERT, pad_token_id=0),
        _text("GPT-like", "gpt2_small", "GPT2LMHeadModel", **_GPT),
        _text("GPT-like", "gpt_neox", "GPTNeoXForCausalLM", **_BERT),
        _text("GPT-like", "opt", "OPTForCausalLM", **_SMALL, ffn_dim=1024, word_embed_proj_dim=256),
        _text("GPT-like", "bloom", "BloomForCausalLM", hidden_size=256, n_layer=4, n_head=4),
        _text("GPT-like", "llama", "LlamaForCausalLM", **_BERT),
        _text("GPT-like", "qwen2", "Qwen2ForCausalLM", **_BERT, num_key_value_heads=2),
        _text("GPT-like", "gemma", "GemmaForCausalLM", **_BERT, num_key_value_heads=1, head_dim=64),
        _text("T5-like", "t5_encoder", "T5EncoderModel", d_model=256, d_ff=1024, num_layers=4,
              num_heads=4),
        _text("T5-like", "t5", "T5Model", "text pair", d_model=256, d_ff=1024, num_layers=4,
              num_heads=4),
        _text("T5-like", "bart", "BartModel", "text pair", **_PAIR),
        *_small("LSTM and GRU", (50, 100), "tokens", "lstm_language bilstm_tagger gru_classifier"),
        *_small("LSTM and GRU", (50, 100), "series", "lstm_forecast gru_forecast"),
        *_small("LSTM and GRU", (160, 320), "line", "crnn"),
        *_ours("LSTM and GRU", (0,), "nasrnn"),
        *_vision(
            "detection heads", (320, 224), "detection/retinanet_resnet50_fpn "
            "detection/ssdlite320_mobilenet_v3_large detection/fcos_resnet50_fpn"
        ),
        *_vision(
            "segmentation", (256, 160), "segmentation/lraspp_mobilenet_v3_large "
            "segmentation/deeplabv3_mobilenet_v3_large segmentation/fcn_resnet50"
        ),
        Row("segformer", "segmentation", "transformers", "SegformerForSemanticSegmentation",
            (256, 128)),
        Row("yolos", "detection heads", "transformers", "YolosForObjectDetection", (224,),
            settings={**_BERT, "image_size": (224, 224), "num_detection_tokens": 20}),
        *_ours("detection heads", (0,), "ppocr_det ppocr_rec ppocr_cls"),
        *_vision("video", (112,), "video/mc3_18 video/r2plus1d_18", kind="video"),
        Row("whisper_encoder", "audio", "transformers", "WhisperModel:encoder", (3000,), "mel 80",
            {**_PAIR, "num_mel_bins": 80}),
        Row("wav2vec2", "audio", "transformers", "Wav2Vec2Model", (16000, 8000), "wave", _WAVE),
        Row("audio_spectrogram_transformer", "audio", "transformers", "ASTModel", (512, 256),
            "mel 128", {**_BERT, "max_length": SIZE}),
        *_small("audio", (16000, 8000), "one channel", "m5 tcn wavenet"),
        *_small("audio", (49, 98), "mfcc", "keyword_ds_cnn"),
        *_small("small MLP, tabular", (64, 256), "columns", "mlp deep_mlp tabular_resnet"),
        *_small("small MLP, tabular", (16, 64), "mixed columns",
               "wide_and_deep ft_transformer dlrm"),
        *_small("small MLP, tabular", (1024, 256), "points", "pointnet"),
        *_small("text convolution", (128, 256), "tokens", "text_cnn"),
        Row("patchtst", "time series", "transformers", "PatchTSTForPrediction", (96,), "series",
            {"num_input_channels": 7, "context_length": 96, "prediction_length": 24}),
    ]
}  # fmt: skip
