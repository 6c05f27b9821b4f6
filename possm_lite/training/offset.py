"""Why no decoder finds a relation: a search for the lag at which behaviour follows the spikes."""

import numpy as np

from ..recordings.recording import Recording

_WIDTH_S = 0.1  # of the bins that are correlated
_SMOOTH_S = 10.0  # slower changes are taken out: two drifts always seem related
_MOST_UNITS = 200
_SIGNIFICANT = 12.0  # times the usual deviation of the score from its median


def search_offset(recording: Recording, max_s: float = 60.0) -> float | None:
    """The lag at which spikes and behaviour are related, if there is one; nothing is trained.

        score(L) = sum over units u, signals c of corr(n_u(t - L), b_c(t))^2

    Counts n_u and behaviour b_c, the columns and their length, are means of bins of 0.1 s, without
    their changes over more than 10 s. A clock that differs gives one narrow peak.

    Args:
        recording: spikes and behaviour.
        max_s: lags from -max_s to max_s are tried, seconds.

    Returns:
        The lag, behaviour minus spikes, seconds; None if no lag stands out.
    """
    start = min(recording.spike_times[0], recording.behavior_times[0])
    stop = max(recording.spike_times[-1], recording.behavior_times[-1])
    n_bins = int((stop - start) / _WIDTH_S) + 1
    n_lags = min(round(max_s / _WIDTH_S), n_bins // 2)
    behavior, known = _binned_behavior(recording, start, n_bins)
    counts, recorded = _binned_counts(recording, start, n_bins)
    length = 2 ** int(np.ceil(np.log2(n_bins + n_lags + 1)))  # no lag wraps around
    of_lags = np.r_[-n_lags : n_lags + 1]
    masks = np.fft.rfft(np.stack([known, recorded]).astype(float), length)
    overlap = np.fft.irfft(masks[0] * masks[1].conj(), length)[of_lags]  # bins, at each lag
    spectra = np.fft.rfft(behavior, length)  # (C + 1, frequencies)
    score = np.zeros(len(of_lags))
    for train in counts:
        product = spectra * np.fft.rfft(train, length).conj()
        correlation = np.fft.irfft(product, length)[:, of_lags] / np.maximum(overlap, 1)
        score += (correlation**2).sum(axis=0)
    usable = overlap > 0.3 * overlap.max()
    # the more bins overlap, the smaller is a correlation of nothing
    score = np.where(usable, score * overlap, 0.0)
    median = np.median(score[usable])
    deviation = np.median(np.abs(score[usable] - median))
    best = int(score.argmax())
    if score[best] < median + _SIGNIFICANT * deviation:
        return None
    return float(np.round(of_lags[best] * _WIDTH_S, 3))


def _binned_behavior(
    recording: Recording, start: float, n_bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of behaviour and their length, standardised, (C + 1, n_bins), and where known."""
    bins = ((recording.behavior_times - start) / _WIDTH_S).astype(int)
    n = np.bincount(bins, minlength=n_bins)
    centered = recording.behavior - np.median(recording.behavior, axis=0)
    centered /= np.maximum(centered.std(axis=0), 1e-300)
    signals = [*centered.T, np.linalg.norm(centered, axis=1)]
    means = [np.bincount(bins, x, minlength=n_bins) / np.maximum(n, 1) for x in signals]
    return _standardized(np.array(means), n > 0), n > 0


def _binned_counts(
    recording: Recording, start: float, n_bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Counts of the units with most spikes, standardised, (units, n_bins), and where any fired."""
    bins = ((recording.spike_times - start) / _WIDTH_S).astype(int)
    recorded = np.zeros(n_bins, dtype=bool)
    recorded[bins[0] : bins[-1] + 1] = True
    n_spikes = np.bincount(recording.spike_units, minlength=recording.n_units)
    counts = []
    for unit in np.argsort(n_spikes)[::-1][:_MOST_UNITS]:
        if n_spikes[unit]:
            counts.append(np.bincount(bins[recording.spike_units == unit], minlength=n_bins))
    return _standardized(np.sqrt(np.array(counts)), recorded), recorded


def _standardized(signals: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Signals, (n, T), without slow changes, of standard deviation 1 where known, else 0."""
    from scipy.ndimage import uniform_filter1d  # slow to import

    width = round(_SMOOTH_S / _WIDTH_S)
    signals = np.where(known, signals, 0.0)
    share = uniform_filter1d(known.astype(float), width, mode="constant")
    slow = uniform_filter1d(signals, width, axis=1, mode="constant") / np.maximum(share, 1e-9)
    fast = np.where(known, signals - slow, 0.0)
    deviation = np.sqrt((fast**2).sum(axis=1) / max(known.sum(), 1))
    return fast / np.maximum(deviation, 1e-12)[:, None]
