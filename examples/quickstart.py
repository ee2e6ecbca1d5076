"""Trains a residual on top of the experts' ensemble, and compares the two on fresh episodes."""

import seerax

maze = seerax.make("maze4")  # problem + Bayes filter + ensemble of clairvoyant experts
trainer = seerax.trainer(maze, agent="brpo", steps=16e6)  # our settings for it, yours on top
for progress in trainer.train(seed=0):  # a generator: stop, log or plot when you like
    if progress.evaluated:
        print(progress)  # 4.2M steps  held-out 451.3  best 451.3  (start 416.0)
policy = progress.policy()  # the best by held-out return, as in Algorithm 1
print(seerax.evaluate(maze, seerax.follow_advice))  # the ensemble itself
print(seerax.evaluate(maze, policy))
policy.save("maze4.safetensors")
policy = seerax.load("maze4.safetensors")  # or a run folder, or "maze4/brpo" for the shipped one
pilot = seerax.Pilot(policy)  # on a robot: reset(state), act(), observe(action, state)
