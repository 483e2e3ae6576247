"""Exports 25 models of `transformers` and `diffusers`, small and with random weights, to ONNX files.

    python export.py FOLDER [MODEL ...]

Runs in the environment of README.md; `plan.py` in this folder plans the files. Every model has the number of layers
of a published one and less width. PyTorch's exporter (`dynamo=True`) is tried first, then the older one.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers as hf

Inputs = Mapping[str, torch.Tensor]

WORDS, WIDTH, HEADS = 64, 256, 8  # tokens of a sentence; width and attention heads of most models


def ids(words: int = WORDS) -> torch.Tensor:
    """One sentence of word numbers."""
    return torch.arange(1, words + 1)[None]


def image(size: int = 224) -> torch.Tensor:
    """One image with three channels."""
    return torch.rand(1, 3, size, size)


def decoder(config: type, model: type, **options: Any) -> tuple[torch.nn.Module, Inputs]:
    """A language model with the names of options that Llama has, and a sentence."""
    sizes = {"vocab_size": 1000, "hidden_size": WIDTH, "intermediate_size": 3 * WIDTH, "num_hidden_layers": 12}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": 4, "use_cache": False}
    return model(config(**{**sizes, **heads, **options})), {"input_ids": ids()}


def experts(config: type, model: type, **options: Any) -> tuple[torch.nn.Module, Inputs]:
    """A language model whose experts are products of batches, as grouped products cannot be exported."""
    made, inputs = decoder(config, model, num_hidden_layers=8, **options)
    made.set_experts_implementation("batched_mm")
    return made, inputs


def encoder(config: type, model: type, **options: Any) -> tuple[torch.nn.Module, Inputs]:
    """A model with the names of options that BERT has, and a sentence."""
    sizes = {"vocab_size": 1000, "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS}
    return model(config(**{**sizes, **options})), {"input_ids": ids(), "attention_mask": torch.ones_like(ids())}


def vision(config: type, model: type, size: int = 224, **options: Any) -> tuple[torch.nn.Module, Inputs]:
    """A model of images, and an image."""
    return model(config(**options)), {"pixel_values": image(size)}


def gpt2() -> tuple[torch.nn.Module, Inputs]:
    config = hf.GPT2Config(vocab_size=1000, n_embd=WIDTH, n_head=HEADS, use_cache=False)
    return hf.GPT2LMHeadModel(config), {"input_ids": ids()}


def opt() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"vocab_size": 1000, "hidden_size": WIDTH, "word_embed_proj_dim": WIDTH, "ffn_dim": 4 * WIDTH}
    config = hf.OPTConfig(**sizes, num_attention_heads=HEADS, use_cache=False)
    return hf.OPTForCausalLM(config), {"input_ids": ids(), "attention_mask": torch.ones_like(ids())}


def mamba() -> tuple[torch.nn.Module, Inputs]:
    config = hf.MambaConfig(vocab_size=1000, hidden_size=WIDTH, num_hidden_layers=12, use_cache=False)
    return hf.MambaForCausalLM(config), {"input_ids": ids(16)}


def clip() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS}
    text = {**sizes, "vocab_size": 1000, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    config = hf.CLIPConfig(text_config=text, vision_config={**sizes, "patch_size": 16}, projection_dim=128)
    given = {"input_ids": ids(), "pixel_values": image(), "attention_mask": torch.ones_like(ids())}
    return hf.CLIPModel(config), given


def t5() -> tuple[torch.nn.Module, Inputs]:
    config = hf.T5Config(vocab_size=1000, d_model=WIDTH, d_kv=32, d_ff=4 * WIDTH, num_heads=HEADS, use_cache=False)
    return hf.T5ForConditionalGeneration(config), {"input_ids": ids(), "decoder_input_ids": ids(32)}


def whisper() -> tuple[torch.nn.Module, Inputs]:
    layers = {"encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6}
    config = hf.WhisperConfig(vocab_size=2000, pad_token_id=0, **layers, d_model=384, use_cache=False)
    features = {"input_features": torch.rand(1, 80, 3000), "decoder_input_ids": ids(32)}
    return hf.WhisperForConditionalGeneration(config), features


def wav2vec2() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS}
    return hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**sizes)), {"input_values": torch.rand(1, 16000)}


def detr() -> tuple[torch.nn.Module, Inputs]:
    backbone = hf.ResNetConfig(embedding_size=32, hidden_sizes=[64, 128, 256, 512], out_features=["stage4"])
    config = hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone
    )
    return hf.DetrForObjectDetection(config), {"pixel_values": image(), "pixel_mask": torch.ones(1, 224, 224).long()}


def dpt() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS, "image_size": 224}
    config = hf.DPTConfig(**sizes, neck_hidden_sizes=[32, 64, 128, 128], fusion_hidden_size=64)
    return hf.DPTForDepthEstimation(config), {"pixel_values": image()}


def sam() -> tuple[torch.nn.Module, Inputs]:
    seen = hf.SamVisionConfig(
        hidden_size=192, num_attention_heads=6, output_channels=64, image_size=512, mlp_dim=768, num_pos_feats=32
    )
    prompt = hf.SamPromptEncoderConfig(hidden_size=64, image_size=512, mask_input_channels=8)
    mask = hf.SamMaskDecoderConfig(hidden_size=64, mlp_dim=512, num_attention_heads=4, iou_head_hidden_dim=64)
    model = hf.SamModel(hf.SamConfig(vision_config=seen, prompt_encoder_config=prompt, mask_decoder_config=mask))
    return model, {"pixel_values": image(512), "input_points": torch.tensor([[[[100.0, 200.0]]]])}


def unet() -> tuple[torch.nn.Module, Inputs]:
    model = diffusers.UNet2DConditionModel(
        sample_size=32, block_out_channels=(64, 128, 256, 256), cross_attention_dim=128, norm_num_groups=16
    )
    given = {"timestep": torch.tensor(10), "encoder_hidden_states": torch.rand(1, 32, 128)}
    return model, {"sample": torch.rand(1, 4, 32, 32), **given}


def dit() -> tuple[torch.nn.Module, Inputs]:
    sizes = {"num_attention_heads": HEADS, "attention_head_dim": 32, "num_layers": 12}
    model = diffusers.DiTTransformer2DModel(**sizes, sample_size=32, patch_size=2)
    labels = {"timestep": torch.tensor([10]), "class_labels": torch.tensor([3])}
    return model, {"hidden_states": torch.rand(1, 4, 32, 32), **labels}


SIZES = {"hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": HEADS}
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "n_group": 2, "topk_group": 1}
LATENT = {"q_lora_rank": 96, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32}

MODELS: Mapping[str, Callable[[], tuple[torch.nn.Module, Inputs]]] = {
    "bert": lambda: encoder(hf.BertConfig, hf.BertForSequenceClassification),
    "roberta": lambda: encoder(hf.RobertaConfig, hf.RobertaForMaskedLM),
    "gpt2": gpt2,
    "opt": opt,
    "llama": lambda: decoder(hf.LlamaConfig, hf.LlamaForCausalLM),
    "gemma": lambda: decoder(hf.GemmaConfig, hf.GemmaForCausalLM, head_dim=32),
    "qwen": lambda: decoder(hf.Qwen3Config, hf.Qwen3ForCausalLM, head_dim=32),
    "phi": lambda: decoder(hf.PhiConfig, hf.PhiForCausalLM),
    "mixtral": lambda: experts(hf.MixtralConfig, hf.MixtralForCausalLM, num_local_experts=4),
    "deepseek": lambda: experts(
        *(hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM),
        **{**EXPERTS, **LATENT, "first_k_dense_replace": 1, "num_key_value_heads": HEADS},
    ),
    "mamba": mamba,
    "t5": t5,
    "whisper": whisper,
    "wav2vec2": wav2vec2,
    "clip": clip,
    "vit": lambda: vision(hf.ViTConfig, hf.ViTForImageClassification, **SIZES),
    "convnext": lambda: vision(hf.ConvNextConfig, hf.ConvNextForImageClassification, hidden_sizes=[32, 64, 128, 256]),
    "swin": lambda: vision(hf.SwinConfig, hf.SwinForImageClassification, embed_dim=48, num_heads=[3, 6, 12, 24]),
    "segformer": lambda: vision(hf.SegformerConfig, hf.SegformerForSemanticSegmentation, size=256),
    "dpt": dpt,
    "detr": detr,
    "sam": sam,
    "resnet": lambda: vision(hf.ResNetConfig, hf.ResNetForImageClassification),
    "unet": unet,
    "dit": dit,
}


def export(name: str, folder: Path) -> str:
    """Write one model; return the name of the exporter that did. Raises RuntimeError if none can."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    path, reasons = folder / f"{name}.onnx", []
    for exporter in ("dynamo", "torchscript"):
        options = {"external_data": False} if exporter == "dynamo" else {"input_names": list(inputs)}
        try:
            with torch.no_grad():
                torch.onnx.export(
                    *(model.eval(), (), path),
                    kwargs=dict(inputs),
                    dynamo=exporter == "dynamo",
                    verbose=False,
                    **options,
                )
        except Exception as error:  # of many kinds: the exporters wrap whatever the model raises
            reasons.append(f"{exporter}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        else:
            return "; ".join([exporter, *reasons])
    raise RuntimeError(f"{name}: {'; '.join(reasons)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"torch {torch.__version__}, transformers {hf.__version__}, diffusers {diffusers.__version__}", flush=True)
    for name in options.models or MODELS:
        start = time.monotonic()
        try:
            how = export(name, options.folder)
        except Exception as error:
            how = f"FAILED {type(error).__name__}: {error}"
        print(f"{name}: {how} ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
