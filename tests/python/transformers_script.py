"""usage: transformers_script.py DIRECTORY: the training with Transformers' Trainer and a model with random weights."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import muster.transformers
from common import EVERY, STEPS, faults_after, print_digest

directory = sys.argv[1]


class Faults(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        faults_after(state.global_step, directory)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8 * STEPS

    def __getitem__(self, index):
        tokens = torch.randint(32, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(
    output_dir=directory,
    max_steps=STEPS,
    per_device_train_batch_size=2,
    per_device_eval_batch_size=8,
    save_steps=EVERY,
    save_total_limit=2,
    eval_strategy="steps",
    eval_steps=25,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    logging_strategy="no",
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=Samples(),
    eval_dataset=torch.utils.data.Subset(Samples(), range(16)),
    callbacks=[muster.transformers.MusterCallback(), Faults()],
)
trainer.train(resume_from_checkpoint=muster.transformers.newest(directory))
print_digest(model)
