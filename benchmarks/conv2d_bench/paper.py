"""Measurements of fbfft's authors on a K40m, beside cuDNN 1.0: Vasilache et al. 2014, from the sections named."""

from __future__ import annotations

TOP_BY_K = {3: 1.84, 5: 5.33, 13: 23.54}
"""Largest speed-up of their cuFFT convolution over cuDNN for each k, averaged over the three passes (section 4.1, for
figures 1, 2 and 6). The text has no numbers for 7, 9 and 11, and no means.
"""
SMALL_FILTERS = {"mean": 1.51, "deviation": 0.21, "geometric mean": 1.49, "least": 1.21}
"""Section 5.4: fbfft in place of cuFFT in their own pipeline."""
TABLE4_MS = {
    "L1": ((125.11, 80.98), (153.39, 66.49), (155.07, 69.63)),
    "L2b": ((354.83, 46.44), (579.37, 46.25), (416.34, 47.03)),
    "L3": ((130.89, 17.77), (245.57, 16.97), (154.96, 17.00)),
    "L4": ((15.13, 4.88), (20.80, 4.71), (18.17, 4.70)),
    "L5": ((39.82, 21.35), (28.33, 20.22), (47.84, 21.26)),
}
"""cuDNN and cuFFT, for the forward pass, the gradient of the image and that of the weights. The table says 64 filters
for L2; its times and its rate of 7.49 TRED/s are those of 128, which is L2b here.
"""
TABLE3_MS = {
    "alexnet": ((147.32, 94.34), (167.79, 96.69), (153.96, 93.20)),
    "overfeat": ((459.06, 375.65), (634.26, 460.48), (508.02, 397.85)),
}
"""cuDNN and cuFFT, for the same passes: sums over all layers, with cuDNN for the first layer in both."""
TABLE5_STEPS = ("FFT A", "trans. A", "FFT B", "trans. B", "Cgemm", "trans. C", "IFFT C")
TABLE5_MS = {
    "L1": (
        (0.86, 0.24, 1.13, 0.32, 15.13, 12.67, 36.46),
        (0.86, 0.24, 34.55, 10.26, 12.62, 0.39, 1.19),
        (1.14, 0.32, 34.60, 10.26, 12.37, 0.26, 0.91),
    ),
    "L2": (
        (2.99, 0.98, 5.91, 2.03, 8.92, 1.67, 6.24),
        (2.99, 0.98, 5.92, 2.03, 8.85, 1.67, 6.23),
        (5.94, 2.04, 5.93, 2.02, 8.38, 0.83, 3.15),
    ),
    "L3": (
        (3.07, 0.89, 3.08, 0.89, 4.40, 0.87, 3.49),
        (3.08, 0.89, 3.07, 0.90, 4.05, 0.86, 3.48),
        (3.07, 0.89, 3.06, 0.89, 4.03, 0.87, 3.48),
    ),
    "L4": (
        (0.84, 0.24, 0.83, 0.24, 1.21, 0.24, 0.95),
        (0.83, 0.24, 0.83, 0.24, 1.13, 0.23, 0.94),
        (0.84, 0.24, 0.82, 0.24, 1.10, 0.24, 0.95),
    ),
    "L5": (
        (7.07, 1.58, 2.39, 0.51, 6.23, 0.50, 2.54),
        (7.07, 1.59, 2.40, 0.51, 5.59, 0.51, 2.54),
        (2.40, 0.51, 2.38, 0.52, 6.18, 1.54, 7.51),
    ),
}
"""Steps of their convolution, by pass, without copies that pad. A and B are the product's factors."""
