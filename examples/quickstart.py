"""Train a residual on top of the experts' ensemble, and compare the two on fresh episodes."""

import jax

import seerax
from seerax import experiments, rollout

seerax.prepare()  # every core a device, compiled programs remembered

trainer = experiments.settings(
    "maze4"
).trainer()  # our settings; build a ppo.PPO yourself for others
for progress in trainer.train(keys=jax.random.split(jax.random.key(0), 1)):
    if progress.held_out is not None:
        print(f"{progress.steps:>9} steps, held-out return {progress.held_out[0]:.1f}")

policy = trainer.policy(jax.tree.map(lambda leaf: leaf[0], progress.best))
for name, player in {"ensemble": seerax.follow_advice, "BRPO": policy}.items():
    print(name, rollout.evaluate(jax.random.key(1), trainer.mdp, player, episodes=1000).summary())
