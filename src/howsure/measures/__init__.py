"""Pure maths on arrays: no files, no models, no printing. Nats inside; names carry their unit."""

from howsure.measures.calibration import (
    ReliabilityBins,
    brier_score,
    expected_calibration_error,
    log_loss,
    reliability_bins,
    smooth_ece,
)
from howsure.measures.choices import ChoiceScores, NormalisedChoices, choice_scores, normalised_choices
from howsure.measures.clicks import agreement, click_distances, in_box, in_polygon, spread
from howsure.measures.coherent import CoherentTrust, coherent_trust
from howsure.measures.detectors import (
    Baseline,
    cusum,
    first_alarm,
    fit_baseline,
    fit_threshold,
    highest,
    level_change,
)
from howsure.measures.distances import cosine_distance, inference_gap, inquiry_drift
from howsure.measures.entropy import (
    cross_entropy_nats,
    entropy_from_logprobs_nats,
    entropy_nats,
    kl_nats,
    perplexity,
)
from howsure.measures.entropy_estimates import (
    BlockEntropy,
    block_entropies,
    grassberger_entropy_nats,
    miller_madow_entropy_nats,
    plugin_entropy_nats,
)
from howsure.measures.fieller import FiellerSet, fieller_set
from howsure.measures.hmm import GaussianHMM, fit_hmm
from howsure.measures.intervals import (
    Interval,
    bootstrap,
    bootstrap_mean,
    bootstrap_ratio,
    bootstrap_ratios,
    wilson_interval,
)
from howsure.measures.learned_weights import StateWeights, fit_state_weights, state_features, turn_weights
from howsure.measures.logprobs import check_logprobs
from howsure.measures.markov import MarkovModel, MarkovSource, estimate_markov
from howsure.measures.paired import McNemar, PairedDifference, mcnemar_exact, paired_bootstrap
from howsure.measures.propagation import (
    PROPAGATIONS,
    Final,
    final_value,
    running_geometric,
    running_maximum,
    running_mean,
    running_position,
    running_rms,
    running_tail,
    running_weighted,
)
from howsure.measures.ranking import Area, Ranking, rank_failures
from howsure.measures.selective import RiskCoverage, auarc, auprc, aurc, auroc, e_aurc, prr, risk_coverage
from howsure.measures.topk import TopKEntropies, TopKEntropy, topk_entropies, topk_entropy
from howsure.measures.trust import TrustEstimate, trust, trust_of_each, trust_over_steps
from howsure.measures.turns import TurnColumns, TurnStatistics, turn_statistics, turn_statistics_ragged
from howsure.measures.units import NATS_PER_BIT, bits_to_nats, nats_to_bits
from howsure.measures.verbalized import verbalized_entropy_nats
from howsure.measures.weighted_bootstrap import bootstrap_auroc, bootstrap_median

__all__ = [
    "NATS_PER_BIT",
    "PROPAGATIONS",
    "Area",
    "Baseline",
    "BlockEntropy",
    "ChoiceScores",
    "CoherentTrust",
    "FiellerSet",
    "Final",
    "GaussianHMM",
    "Interval",
    "MarkovModel",
    "MarkovSource",
    "McNemar",
    "NormalisedChoices",
    "PairedDifference",
    "Ranking",
    "ReliabilityBins",
    "RiskCoverage",
    "StateWeights",
    "TopKEntropies",
    "TopKEntropy",
    "TrustEstimate",
    "TurnColumns",
    "TurnStatistics",
    "agreement",
    "auarc",
    "auprc",
    "aurc",
    "auroc",
    "bits_to_nats",
    "block_entropies",
    "bootstrap",
    "bootstrap_auroc",
    "bootstrap_mean",
    "bootstrap_median",
    "bootstrap_ratio",
    "bootstrap_ratios",
    "brier_score",
    "check_logprobs",
    "choice_scores",
    "click_distances",
    "coherent_trust",
    "cosine_distance",
    "cross_entropy_nats",
    "cusum",
    "e_aurc",
    "entropy_from_logprobs_nats",
    "entropy_nats",
    "estimate_markov",
    "expected_calibration_error",
    "fieller_set",
    "final_value",
    "first_alarm",
    "fit_baseline",
    "fit_hmm",
    "fit_state_weights",
    "fit_threshold",
    "grassberger_entropy_nats",
    "highest",
    "in_box",
    "in_polygon",
    "inference_gap",
    "inquiry_drift",
    "kl_nats",
    "level_change",
    "log_loss",
    "mcnemar_exact",
    "miller_madow_entropy_nats",
    "nats_to_bits",
    "normalised_choices",
    "paired_bootstrap",
    "perplexity",
    "plugin_entropy_nats",
    "prr",
    "rank_failures",
    "reliability_bins",
    "risk_coverage",
    "running_geometric",
    "running_maximum",
    "running_mean",
    "running_position",
    "running_rms",
    "running_tail",
    "running_weighted",
    "smooth_ece",
    "spread",
    "state_features",
    "topk_entropies",
    "topk_entropy",
    "trust",
    "trust_of_each",
    "trust_over_steps",
    "turn_statistics",
    "turn_statistics_ragged",
    "turn_weights",
    "verbalized_entropy_nats",
    "wilson_interval",
]
