"""Writes frames as .mp4 and .gif files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from seerax.drawing import PALETTE


def write_mp4(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    """Pipes the frames to ffmpeg, which encodes them as H.264."""
    first = next(frames)
    size = f"{first.shape[1]}x{first.shape[0]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-"]
    target = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y"]
    command = [*ffmpeg, *source, *target, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in chain([first], frames):
            process.stdin.write(frame.tobytes())
    if process.returncode:
        raise OSError(f"ffmpeg ended with {process.returncode}")


def write_gif(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    """Writes all frames with one palette, so that what stands still takes no space."""
    few = Image.new("P", (1, 1))
    few.putpalette(tints().ravel().tolist())
    images = (
        Image.fromarray(frame).quantize(palette=few, dither=Image.Dither.NONE) for frame in frames
    )
    next(images).save(path, save_all=True, append_images=images, duration=1000 / fps, loop=0)


def tints() -> np.ndarray:
    """Returns white and every colour of the palette from faint to full, at most 256 in all: [n, 3].

    Shades that are nearly white are left out: Pillow rounds colours to multiples of 4, and would
    show white as one of them.
    """
    full = np.array([to_rgb(colour) for colour in sorted(set(PALETTE.values()))])
    share = np.linspace(1, 0, 255 // len(full), endpoint=False)[:, None, None]
    mixed = np.round(255 * (1 - share * (1 - full))).astype(int).reshape(-1, 3)
    return np.concatenate([[(255, 255, 255)], mixed[mixed.min(-1) < 246]])
