"""Remarks on the claims of the paper, written by hand."""

# Why a claim came out as it did, by its key.
REMARKS = {
    "fresh": (
        "Algorithm 1 returns the best policy by held-out return, and the first one measured is "
        "the ensemble."
    ),
    "start": (
        "Here exactly: the network's mean starts at zero, and the first policy is the ensemble."
    ),
    "adaptive-crowdnav": (
        "Not dramatically in the end, but it gets there in a quarter and a sixth of their steps."
    ),
    "cartpole-time": "Slower, but by less: batches are large and inputs normalised for all three.",
    "unable-maze4": (
        "BPO's best seed reaches two of the four goals nearly always, and the others never."
    ),
    "unable-maze10": (
        "BPO's best seed reaches four of the ten goals nearly always, and the others never."
    ),
    "unable-door4": (
        "Most seeds learn it. No reading is needed to learn: a crash tells the truth for 10, and "
        "the ensemble that never senses has 78 (`docs/problems.md`)."
    ),
    "helped-maze4": (
        "The first reading moves the belief by 0.33: epsilon 1 pays 0.33 for it, and it costs 1."
    ),
    "helped-maze10": (
        "Epsilon 100 pays 62 for the first reading, which costs 0.1; they sense and get no further."
    ),
    "helped-door4": (
        "At the start a reading moves the belief by 0.4: epsilon 1 pays 0.4 for it, and it costs 1."
    ),
    "robust-bonus-door4": (
        "At a door a reading moves the belief by 1: epsilon 10 pays 10 for it, the problem takes "
        "1. Learning goes where sensing never ends, and the best policies on the way are near the"
        " ensemble."
    ),
    "crashes": (
        "It earns the bonus with readings: it goes back to the far corners and senses in 98.7 % "
        "of the steps: weak readings move the belief again and again and a crash only once. (The "
        "returned policy is the ensemble.)"
    ),
    "gain-crashes": (
        "It reads until it knows all four doors: 13 readings, the cheaper way to the same bonus."
    ),
    "reading-tells": "Exact, from the prior. Why no bonus on the belief makes crashes pay here.",
    "cheap-crashes": (
        "There it takes many more readings: few readings and few crashes exclude each other."
    ),
    "faster": "Where the ensemble runs into somebody its episode is short; BRPO waits for a gap.",
    "door-crashes": (
        "It takes the risk: one crash costs as much as ten readings. A rule by hand that crashes "
        "in 2.4 % of the episodes takes 4 readings and returns 95.6 (`docs/problems.md`), less "
        "than BRPO."
    ),
    "inputs-maze4": (
        "In the middle of the training its return falls far below the ensemble's and has not "
        "recovered at the end. Opposite advice cancels whether one is sure of nothing or torn "
        "between two."
    ),
    "inputs-maze10": "Close in return, for little room is left; of that it fills less.",
    "naive": "At depth 4 the tree is small enough for BPO to find sensing by chance.",
    "table-brpo": "Our ensemble, from which it starts, has that already: see two rows below.",
    "better-sensing": "Here both leave little room: experts that brake seldom enter a wrong goal.",
    "table-random": (
        "Our experts brake. With experts that always push with full thrust, the authors' rule, "
        "ours has 408.9 +- 2.0 (`make table1`, `docs/problems.md`)."
    ),
    "table-better": "The same rule: with full thrust ours has 406.2 +- 2.0.",
    "gap": "Exact; simulated points lie on the lines (`seerax figure tree`).",
}
