"""TOFU and the model fine-tuned on it, as the Hugging Face libraries keep them.

python hugging_face.py OUT
"""

import os
import sys

if __name__ == "__main__":
    os.environ["HF_HOME"] = sys.argv[1]  # before the libraries are imported
    from datasets import load_dataset
    from huggingface_hub import snapshot_download

    for split in ("forget10", "retain90"):
        load_dataset("locuslab/TOFU", split, split="train")
    snapshot_download("open-unlearning/tofu_Llama-3.2-1B-Instruct_full")
