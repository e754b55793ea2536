"""What fbfft's authors measured on a K40m, beside cuDNN 1.0: Vasilache et al. 2014, from the sections named."""

from __future__ import annotations

TOP_BY_K = {3: 1.84, 5: 5.33, 13: 23.54}
"""Largest speed-up of their cuFFT convolution over cuDNN for each k, averaged over the three passes (section 4.1, of
figures 1, 2 and 6). Of 7, 9 and 11 the text has no numbers, and neither has it means."""
SMALL_FILTERS = {"mean": 1.51, "deviation": 0.21, "geometric mean": 1.49, "least": 1.21}
"""Section 5.4: fbfft in place of cuFFT in their own pipeline."""
TABLE4_MS = {
    "L1": ((125.11, 80.98), (153.39, 66.49), (155.07, 69.63)),
    "L2b": ((354.83, 46.44), (579.37, 46.25), (416.34, 47.03)),
    "L3": ((130.89, 17.77), (245.57, 16.97), (154.96, 17.00)),
    "L4": ((15.13, 4.88), (20.80, 4.71), (18.17, 4.70)),
    "L5": ((39.82, 21.35), (28.33, 20.22), (47.84, 21.26)),
}
"""cuDNN and cuFFT, forward, gradient of the image and of the weights. The table says 64 filters for L2; its times and
its rate of 7.49 TRED/s are those of 128, which is L2b here."""
TABLE3_MS = {
    "alexnet": ((147.32, 94.34), (167.79, 96.69), (153.96, 93.20)),
    "overfeat": ((459.06, 375.65), (634.26, 460.48), (508.02, 397.85)),
}
"""cuDNN and cuFFT, the same passes: sums over all layers, the first one by cuDNN in both."""
