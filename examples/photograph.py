"""Filters a photograph with a tuned kernel and checks the result against SciPy.

    python examples/photograph.py [FOLDER]

Writes before.png and after.png. Runs on the CPU. Needs `pip install "warpsmith[test]"`.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.ndimage
import skimage.data
import skimage.io

import warpsmith as ws


def difference_of_gaussians(size: int, narrow: float, wide: float) -> np.ndarray:
    """A filter of size x size that finds edges: a narrow Gaussian less a wide one."""
    impulse = np.zeros((size, size))
    impulse[size // 2, size // 2] = 1
    gaussians = [scipy.ndimage.gaussian_filter(impulse, sigma) for sigma in (narrow, wide)]
    return (gaussians[0] / gaussians[0].sum() - gaussians[1] / gaussians[1].sum()).astype(np.float32)


def main(folder: Path) -> None:
    image = skimage.data.camera().astype(np.float32) / 255
    weights = difference_of_gaussians(7, 0.8, 2.0)

    problem = ws.Filter2d(image=image.shape, filter=weights.shape, border="reflect")
    ws.tune(problem, device="host", trials=12)
    edges = ws.plan(problem, device="host")(image, weights)

    expected = scipy.ndimage.correlate(image, weights, mode="reflect", output=np.float64)
    print(f"largest difference from scipy.ndimage.correlate: {np.abs(edges - expected).max():.1e}")

    folder.mkdir(parents=True, exist_ok=True)
    skimage.io.imsave(folder / "before.png", (image * 255).astype(np.uint8))
    skimage.io.imsave(folder / "after.png", (np.clip(0.5 + 2 * edges, 0, 1) * 255).astype(np.uint8))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
