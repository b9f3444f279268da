"""Convolutions to time: KernelBench's, and those of real networks."""

from dataclasses import dataclass, field

from agent.kernels.conv_fp32x3.window import Window


@dataclass(frozen=True)
class Shape:
    """Of x and the weight, and how the kernel goes over x."""

    name: str
    x: tuple[int, ...]
    features: int
    size: tuple[int, ...]
    more: dict[str, int | tuple[int, ...]] = field(default_factory=dict)
    transposed: bool = False

    @property
    def window(self) -> Window:
        """With a number for each dimension."""

        def each(name: str, missing: int) -> tuple[int, ...]:
            value = self.more.get(name, missing)
            return value if isinstance(value, tuple) else (value,) * len(self.size)

        groups = self.more.get("groups", 1)
        assert isinstance(groups, int)
        more = each("output_padding", 0)
        return Window(
            each("stride", 1), each("padding", 0), each("dilation", 1), self.transposed, more, groups
        )

    @property
    def weight(self) -> tuple[int, ...]:
        """Its shape."""
        groups = self.window.groups
        if self.transposed:
            return (self.x[1], self.features // groups, *self.size)
        return (self.features, self.x[1] // groups, *self.size)


def back(
    name: str, x: tuple[int, ...], features: int, size: tuple[int, ...], **more: int | tuple[int, ...]
) -> Shape:
    """Of a transposed convolution."""
    return Shape(name, x, features, size, more, True)


KERNELBENCH = (
    Shape("50", (256, 3, 224, 224), 96, (11, 11), {"stride": 4, "padding": 2}),
    Shape("54", (16, 3, 64, 64, 64), 64, (3, 3, 3)), Shape("55", (8, 64, 512, 1024), 128, (3, 3)),
    Shape("56", (8, 64, 512, 256), 128, (5, 7)), Shape("59", (16, 3, 256, 256, 10), 64, (3, 3, 1)),
    Shape("60", (16, 3, 64, 64, 64), 64, (3, 5, 7)), Shape("62", (8, 32, 512, 512), 64, (5, 9)),
    Shape("63", (16, 16, 1024, 1024), 128, (3, 3)), Shape("66", (8, 3, 16, 128, 128), 64, (3, 5, 7)),
    Shape("67", (32, 64, 131072), 128, (3,)),
    Shape("76", (64, 64, 524280), 128, (3,), {"stride": 3, "dilation": 4}),
    Shape("80", (8, 32, 512, 512), 64, (5, 9), {"padding": (2, 4), "dilation": (2, 3)}),
    Shape("87", (16, 64, 1024, 1024), 128, (1, 1)),
    back("57", (8, 64, 1024, 1024), 64, (3, 3)), back("58", (16, 32, 16, 32, 64), 16, (3, 5, 7)),
    back("61", (8, 48, 64, 64, 64), 48, (3, 3, 3)), back("64", (64, 128, 65536), 128, (3,)),
    back("65", (8, 64, 512, 512), 64, (3, 7)), back("68", (16, 32, 64, 64, 64), 64, (3, 5, 5)),
    back("69", (64, 64, 128, 256), 128, (3, 5)), back("70", (8, 48, 96, 96, 96), 24, (3, 3, 3)),
    back("71", (8, 32, 512, 1024), 32, (3, 3)),
    back("72", (8, 32, 12, 24, 48), 32, (3, 5, 7), stride=2, padding=(1, 2, 3), output_padding=1, groups=4),
    back("73", (4, 32, 32, 64, 128), 32, (3, 3, 3), stride=2, padding=1, groups=4),
    back("74", (32, 32, 131072), 64, (5,), dilation=3),
    back("75", (16, 32, 128, 256), 64, (3, 5), stride=(2, 3), padding=(1, 2), dilation=(2, 1), groups=4),
    back("77", (16, 32, 16, 32, 32), 64, (3, 3, 3), stride=2, padding=1, dilation=2),
    back("78", (8, 32, 512, 1024), 32, (3, 7), padding=(1, 3)),
    back("79", (16, 32, 131072), 64, (3,), stride=2, padding=1, dilation=2),
    back("81", (16, 32, 64, 128), 64, (3, 3), stride=5, padding=1, dilation=2),
)  # fmt: skip
"""KernelBench's level 1 by its numbers."""
FUSED = (
    back("2/5", (32, 64, 256, 256), 64, (4, 4), stride=2, padding=1, output_padding=1),
    back("2/10", (128, 64, 256, 256), 64, (3, 3), padding=1),
    back("2/15", (16, 16, 16, 32, 32), 32, (3, 3, 3), stride=2, padding=1),
    Shape("2/25", (128, 16, 256, 256), 64, (3, 3)), Shape("2/65", (128, 8, 384, 384), 64, (3, 3)),
    Shape("2/7", (64, 8, 32, 64, 64), 32, (3, 3, 3)), Shape("2/90", (128, 8, 16, 64, 64), 64, (3, 3, 3)),
)  # fmt: skip
"""Of KernelBench's level 2, where torch is fast."""
NETWORKS = (
    Shape("resnet stem", (32, 3, 224, 224), 64, (7, 7), {"stride": 2, "padding": 3}),
    Shape("resnet 56", (32, 64, 56, 56), 64, (3, 3), {"padding": 1}),
    Shape("resnet 28", (32, 128, 28, 28), 128, (3, 3), {"padding": 1}),
    Shape("resnet 14", (32, 256, 14, 14), 256, (3, 3), {"padding": 1}),
    Shape("resnet 7", (32, 512, 7, 7), 512, (3, 3), {"padding": 1}),
    Shape("resnet 1x1 in", (32, 256, 56, 56), 64, (1, 1)),
    Shape("resnet 1x1 out", (32, 64, 56, 56), 256, (1, 1)),
    Shape("resnet down", (32, 256, 56, 56), 512, (1, 1), {"stride": 2}),
    Shape("vgg 224", (16, 64, 224, 224), 64, (3, 3), {"padding": 1}),
    Shape("vgg 14", (16, 512, 14, 14), 512, (3, 3), {"padding": 1}),
    Shape("unet 64", (4, 320, 64, 64), 320, (3, 3), {"padding": 1}),
    Shape("unet 16", (4, 1280, 16, 16), 1280, (3, 3), {"padding": 1}),
    Shape("resnext", (32, 128, 56, 56), 128, (3, 3), {"padding": 1, "groups": 32}),
    Shape("wav2vec", (8, 512, 3200), 512, (3,), {"stride": 2}),
    Shape("vit patches", (32, 3, 224, 224), 768, (16, 16), {"stride": 16}),
    Shape("resnet 56 down", (32, 128, 56, 56), 128, (3, 3), {"stride": 2, "padding": 1}),
    Shape("vgg 112", (16, 128, 112, 112), 128, (3, 3), {"padding": 1}),
    Shape("vgg 56", (16, 256, 56, 56), 256, (3, 3), {"padding": 1}),
    Shape("vgg 28", (16, 512, 28, 28), 512, (3, 3), {"padding": 1}),
    Shape("alexnet 2", (64, 64, 27, 27), 192, (5, 5), {"padding": 2}),
    Shape("inception", (32, 192, 17, 17), 192, (1, 7), {"padding": (0, 3)}),
    Shape("aspp", (4, 2048, 33, 33), 256, (3, 3), {"padding": 12, "dilation": 12}),
    Shape("unet 32", (4, 640, 32, 32), 640, (3, 3), {"padding": 1}),
    Shape("vae 256", (1, 256, 256, 256), 256, (3, 3), {"padding": 1}),
    Shape("c3d", (8, 64, 16, 56, 56), 128, (3, 3, 3), {"padding": 1}),
    Shape("hifigan", (16, 128, 8192), 128, (11,), {"padding": 25, "dilation": 5}),
    back("hifigan up", (16, 256, 1024), 128, (16,), stride=8, padding=4),
    back("dcgan up", (64, 512, 8, 8), 256, (4, 4), stride=2, padding=1),
    back("unet up", (8, 512, 32, 32), 256, (2, 2), stride=2),
    Shape("mobilenet", (32, 144, 56, 56), 144, (3, 3), {"padding": 1, "groups": 144}),
    Shape("convnext", (32, 96, 56, 56), 96, (7, 7), {"padding": 3, "groups": 96}),
)  # fmt: skip
HELD_BACK = (
    Shape("resnet18 28", (64, 128, 28, 28), 128, (3, 3), {"padding": 1}),
    Shape("resnet50 14 expand", (32, 256, 14, 14), 1024, (1, 1)),
    Shape("resnet50 14 reduce", (32, 1024, 14, 14), 256, (1, 1)),
    Shape("resnet50 7 reduce", (32, 2048, 7, 7), 512, (1, 1)),
    Shape("resnet50 7 down", (32, 1024, 14, 14), 2048, (1, 1), {"stride": 2}),
    Shape("wide resnet 28", (16, 512, 28, 28), 512, (3, 3), {"padding": 1}),
    Shape("diffusion in", (2, 4, 64, 64), 320, (3, 3), {"padding": 1}),
    Shape("diffusion 32", (2, 1280, 32, 32), 640, (3, 3), {"padding": 1}),
    Shape("diffusion 16", (2, 2560, 16, 16), 1280, (3, 3), {"padding": 1}),
    Shape("diffusion 8", (2, 1280, 8, 8), 1280, (3, 3), {"padding": 1}),
    Shape("diffusion down", (2, 320, 64, 64), 320, (3, 3), {"stride": 2, "padding": 1}),
    Shape("diffusion 1x1", (2, 640, 32, 32), 640, (1, 1)),
    Shape("vae 512", (1, 128, 512, 512), 128, (3, 3), {"padding": 1}),
    Shape("vae out", (1, 128, 512, 512), 3, (3, 3), {"padding": 1}),
    Shape("mobilenet expand 56", (64, 24, 56, 56), 144, (1, 1)),
    Shape("mobilenet project 14", (64, 576, 14, 14), 96, (1, 1)),
    Shape("mobilenet head", (64, 320, 7, 7), 1280, (1, 1)),
    Shape("efficientnet expand 28", (32, 40, 28, 28), 240, (1, 1)),
    Shape("efficientnet project 14", (32, 672, 14, 14), 112, (1, 1)),
    Shape("efficientnet head", (16, 448, 12, 12), 1792, (1, 1)),
    Shape("vit 384", (16, 3, 384, 384), 768, (16, 16), {"stride": 16}),
    Shape("vit 14", (32, 3, 224, 224), 1024, (14, 14), {"stride": 14}),
    Shape("swin patches", (32, 3, 224, 224), 96, (4, 4), {"stride": 4}),
    Shape("convnext down", (32, 192, 28, 28), 384, (2, 2), {"stride": 2}),
    Shape("whisper 1", (8, 80, 3000), 768, (3,), {"padding": 1}),
    Shape("whisper 2", (8, 768, 3000), 768, (3,), {"stride": 2, "padding": 1}),
    Shape("encodec", (8, 64, 24000), 128, (8,), {"stride": 4, "padding": 2}),
    Shape("wavenet", (8, 128, 16000), 256, (2,), {"dilation": 64}),
    Shape("r3d 28", (8, 128, 8, 28, 28), 128, (3, 3, 3), {"padding": 1}),
    Shape("i3d stem", (4, 3, 32, 224, 224), 64, (7, 7, 7), {"stride": 2, "padding": 3}),
    Shape("slowfast", (4, 64, 16, 56, 56), 64, (1, 3, 3), {"padding": (0, 1, 1)}),
    Shape("video vae", (1, 128, 9, 128, 128), 128, (3, 3, 3), {"padding": 1}),
    Shape("3d unet", (2, 32, 64, 64, 64), 64, (3, 3, 3), {"padding": 1}),
    back("dcgan 16", (64, 256, 16, 16), 128, (4, 4), stride=2, padding=1),
    back("unet up 64", (4, 256, 64, 64), 128, (2, 2), stride=2),
    back("decoder 32", (8, 256, 32, 32), 256, (3, 3), padding=1),
    back("autoencoder", (16, 64, 56, 56), 64, (3, 3), stride=2, padding=1, output_padding=1),
    back("audio up", (8, 512, 500), 256, (16,), stride=8, padding=4),
    back("3d unet up", (2, 64, 16, 32, 32), 32, (2, 2, 2), stride=2),
)  # fmt: skip
"""Of networks that people train and serve; no rule was drawn from them."""
