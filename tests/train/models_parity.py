"""torchvision's networks, for models_parity_test.cc: models_parity.py FOLDER.

FOLDER/NAME.safetensors gets the state of a network whose BatchNorm layers have seen a batch. It also gets a batch, x.images, and the network's
logits for it in eval mode: x.logits, and x.logits_bf16 under autocast to bfloat16. Ends with 77 without torchvision or safetensors."""

import sys

import torch

try:
    import torchvision
    from safetensors.torch import save_file
except ImportError as missing:
    print(f"skipped: {missing}; `./dev setup` installs it beside torch")
    sys.exit(77)

HIDDEN, CLASSES = 64, 7  # of VGG's heads, which are slow otherwise


def vgg(name):
    model = getattr(torchvision.models, name)(num_classes=CLASSES, init_weights=False)
    for place, (size_in, size_out) in {0: (512 * 7 * 7, HIDDEN), 3: (HIDDEN, HIDDEN), 6: (HIDDEN, CLASSES)}.items():
        model.classifier[place] = torch.nn.Linear(size_in, size_out)
    for each in model.modules():
        if isinstance(each, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(each.weight, mode="fan_out", nonlinearity="relu")
    return model


def vit():
    model = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=96, num_classes=CLASSES)
    torch.nn.init.normal_(model.heads.head.weight, 0, 0.1)
    return model


CASES = {name: lambda name=name: getattr(torchvision.models, name)(num_classes=CLASSES) for name in ("resnet18", "resnet34", "resnet50")}
CASES |= {name: lambda name=name: vgg(name) for name in ("vgg11", "vgg19_bn")}
CASES["vit"] = vit


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for name, make in CASES.items():
        model = make()
        images = torch.randn(2, 3, 32, 32)
        with torch.no_grad():
            model.train()(images * 2 + 0.1)
            logits = model.eval()(images)
        # With gradients: without, torch takes a faster attention, which has no autocast.
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits_bf16 = model(images).detach()
        state = {key: value.contiguous() for key, value in model.state_dict().items()}
        save_file(state | {"x.images": images, "x.logits": logits, "x.logits_bf16": logits_bf16}, f"{sys.argv[1]}/{name}.safetensors")


if __name__ == "__main__":
    main()
