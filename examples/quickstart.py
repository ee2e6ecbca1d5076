"""Train a residual on top of the experts' ensemble, and compare the two on fresh episodes."""

import jax

import seerax
from seerax import agents, ppo, problems, rollout

seerax.prepare()  # every core a device, compiled programs remembered

mdp = problems.make("maze4")
agent = agents.brpo.composed(agents.residual(scale=(0.3, 0.3, 0.1)))
trainer = ppo.PPO(mdp, agent, ppo.Config(steps=3_000_000, learning_rate=1e-3, discount=0.995))

for progress in trainer.train(keys=jax.random.split(jax.random.key(0), 1)):
    if progress.held_out is not None:
        print(f"{progress.steps:>9} steps, held-out return {progress.held_out[0]:.1f}")

policy = trainer.policy(jax.tree.map(lambda leaf: leaf[0], progress.best))
for name, player in {"ensemble": seerax.ensemble, "BRPO": policy}.items():
    print(name, rollout.evaluate(jax.random.key(1), mdp, player, episodes=1000).summary())
