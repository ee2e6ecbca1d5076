"""Proximal policy optimisation: play, judge, improve. It knows nothing of residuals, experts or problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from seerax import devices, rollout, team
from seerax.agents import Agent
from seerax.config import Config
from seerax.core import Action, BeliefMDP, Key, Situation, World, finite, select, sound, strong
from seerax.networks import ActorCritic, Normaliser, log_prob

__all__ = ["PPO", "Brain", "Config", "LearnedPolicy", "Learner", "Progress"]


class Brain(NamedTuple):
    """All that is learned."""

    network: ActorCritic
    inputs: Normaliser
    values: Normaliser


class Learner(NamedTuple):
    """All that changes from one iteration to the next."""

    brain: Brain
    optimiser: Any
    worlds: World  # [worlds]
    key: Key
    iteration: Array


class Played(NamedTuple):
    """What was seen, done and earned; every field is [length, worlds, ...]."""

    inputs: Array
    raw: Array
    log_prob: Array
    value: Array
    reward: Array  # the bonus included
    done: Array
    over: Array
    live: Array  # False for the step on which a world starts afresh
    score: Array  # the episode's return where `over`
    noted: Any = None  # of each step, what `play` was told to note; by default whether what came of it is sound


class LearnedPolicy(eqx.Module):
    """A brain at work. Without noise it answers with the mean action."""

    brain: Brain
    mdp: BeliefMDP = eqx.field(static=True)
    agent: Agent = eqx.field(static=True)
    noisy: bool = eqx.field(static=True, default=False)

    def __call__(self, key: Key, situation: Situation) -> Action:
        network, inputs, _ = self.brain
        raw = network.actor(inputs.normalise(self.agent.inputs(self.mdp, situation)))
        if self.noisy:
            raw = raw + jnp.exp(network.log_std) * jax.random.normal(key, raw.shape)
        return self.agent.compose(situation, raw)


class Progress(NamedTuple):
    """Where a training stands after an iteration. With many seeds every number is one per seed."""

    learner: Learner
    steps: int
    metrics: dict[str, Any]
    held_out: np.ndarray | None  # mean held-out return, if it was measured now
    best: Brain  # by held-out return
    best_return: np.ndarray


@dataclass(frozen=True, eq=False)
class PPO:
    """One method on one belief MDP. Everything is compiled once per object: keep it."""

    mdp: BeliefMDP
    agent: Agent
    config: Config = field(default_factory=Config)

    @property
    def discount(self) -> float:
        return self.mdp.problem.discount if self.config.discount is None else self.config.discount

    @cached_property
    def mesh(self) -> jax.sharding.Mesh:
        return devices.mesh(math.gcd(self.config.worlds, self.config.batch // self.config.minibatches))

    @cached_property
    def optimiser(self) -> optax.GradientTransformation:
        c = self.config
        updates = c.iterations * c.epochs * c.minibatches
        rate = optax.linear_schedule(c.learning_rate, 0.0, updates) if c.anneal else c.learning_rate
        return optax.chain(optax.clip_by_global_norm(c.gradient_norm), optax.adam(rate, eps=1e-5))

    def init(self, key: Key) -> Learner:
        """A learner whose mean raw action is zero: a residual starts exactly at its base."""
        network_key, world_key, key = jax.random.split(key, 3)
        worlds = staggered(world_key, self.mdp, self.config.worlds)
        example = jax.eval_shape(partial(self.agent.inputs, self.mdp), jax.tree.map(lambda x: x[0], worlds.situation))
        exploration = jnp.broadcast_to(jnp.asarray(self.config.exploration), (self.mdp.action_size,))
        network = ActorCritic(network_key, example.shape[0], self.config.hidden, exploration)
        brain = Brain(network, Normaliser.init(example.shape[0]), Normaliser.init())
        return jax.tree.map(strong, Learner(brain, self.optimiser.init(network), worlds, key, jnp.int32(0)))

    @cached_property
    def iterate(self) -> Any:
        """(learner) -> (learner, metrics): one iteration, compiled, the worlds spread over the devices."""
        return self._compiled(partial(iterate, self), P(devices.WORLDS))

    @cached_property
    def iterate_many(self) -> Any:
        """The same for learners stacked along a first axis: seeds side by side."""

        def iterate_seeds(learners: Learner) -> tuple[Learner, dict[str, Array]]:
            return devices.side_by_side(partial(iterate, self), learners)

        return self._compiled(iterate_seeds, P(None, devices.WORLDS))

    def _compiled(self, body: Any, worlds: P) -> Any:
        spec = Learner(P(), P(), worlds, P(), P())  # type: ignore[arg-type]
        return jax.jit(jax.shard_map(body, mesh=self.mesh, in_specs=(spec,), out_specs=(spec, P()), check_vma=False))

    def policy(self, brain: Brain, noisy: bool = False) -> LearnedPolicy:
        return LearnedPolicy(brain, self.mdp, self.agent, noisy)

    @cached_property
    def held_out(self) -> Any:
        """(brains, keys) -> mean return of each brain on the same held-out episodes, without noise or bonus."""

        def scores(brains: Brain, keys: Key) -> Array:
            return devices.side_by_side(lambda brain: rollout.tally(self.mdp, self.policy(brain), keys).score, brains)

        return jax.jit(
            jax.shard_map(
                scores,
                mesh=devices.mesh(self.config.evaluation_episodes),
                in_specs=(P(), P(devices.WORLDS)),
                out_specs=P(None, devices.WORLDS),
                check_vma=False,
            )
        )

    def train(self, keys: Key, progress: Progress | None = None) -> Iterator[Progress]:
        """Train one learner per key side by side, telling how it goes after every iteration.

        The best brain by held-out return is kept, as in Algorithm 1; the first one measured is the untrained one,
        for a residual the ensemble itself.
        """
        count, batch = self.config.iterations, self.config.batch
        exam = self.exam()
        marks = set(np.linspace(0, count, self.config.evaluations + 1).round().astype(int).tolist())
        if progress is None:
            progress = self._begin(keys, exam)
            yield progress
        learner, best, best_return = progress.learner, progress.best, progress.best_return
        for iteration in range(int(learner.iteration[0]), count):
            learner, metrics = self.iterate_many(learner)
            held_out = None
            if iteration + 1 in marks:
                held_out = np.asarray(team.gathered(self.held_out(learner.brain, exam))).mean(-1)
                better = held_out > np.nan_to_num(best_return, nan=-np.inf)
                best = keep_better(better, learner.brain, best)
                best_return = np.where(better, held_out, best_return)
            steps = (iteration + 1) * batch
            yield Progress(learner, steps, jax.device_get(metrics), held_out, best, best_return)

    def place(self, learner: Learner) -> Learner:
        """Stacked learners where `iterate_many` wants them: the worlds spread, all else on every device."""
        return Learner(*[team.spread(part, to) for part, to in zip(learner, self._places(), strict=True)])

    def _places(self) -> list[NamedSharding]:
        """Of each part of stacked learners."""
        return [NamedSharding(self.mesh, spec) for spec in (P(), P(), P(None, devices.WORLDS), P(), P())]

    def copied(self, tree: Any) -> Any:
        """The same on every device."""
        return team.spread(tree, NamedSharding(self.mesh, P()))

    def exam(self) -> Key:
        """The held-out episodes, the same ones for every learner, spread like the worlds."""
        keys = jax.random.split(jax.random.key(0x5EE), self.config.evaluation_episodes)
        return team.spread(keys, NamedSharding(devices.mesh(keys.shape[0]), P(devices.WORLDS)))

    def _begin(self, keys: Key, exam: Key) -> Progress:
        """The iteration is compiled while the rest is at work: compiling takes one core, and most of the time."""
        init = jax.jit(jax.vmap(self.init))
        with devices.meanwhile(lambda: self._compile_iteration(init.eval_shape(keys))):
            learner = self.place(init(keys))
            held_out = np.asarray(team.gathered(self.held_out(learner.brain, exam))).mean(-1)
        return Progress(learner, 0, {}, held_out, learner.brain, held_out)

    def _compile_iteration(self, learner: Learner) -> None:
        """For learners of these shapes; called with one, `iterate_many` finds the program."""

        def placed(part: Any, sharding: NamedSharding) -> Any:
            return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), part)

        shapes = [placed(part, where) for part, where in zip(learner, self._places(), strict=True)]
        self.iterate_many.lower(Learner(*shapes)).compile()


def staggered(key: Key, mdp: BeliefMDP, count: int) -> World:
    """Fresh worlds whose clocks stand anywhere: episodes that only the clock ends would else march in step for ever,
    and an iteration would see beginnings only, or ends only. The cut first episodes are bootstrapped like any other.
    """
    reset_key, clock_key = jax.random.split(key)
    worlds = jax.vmap(mdp.reset)(jax.random.split(reset_key, count))
    return worlds._replace(time=jax.random.randint(clock_key, (count,), 0, mdp.problem.horizon))


def keep_better(better: np.ndarray, new: Any, old: Any) -> Any:
    """Leaf by leaf, the new rows where they are better."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def iterate(ppo: PPO, learner: Learner) -> tuple[Learner, dict[str, Array]]:
    """One iteration on one device's share of the worlds; gradients and statistics are shared by all."""
    key, play_key, shuffle_key = streams(learner.key)
    worlds, played, last_value = play(ppo, play_key, learner.brain, learner.worlds)
    brain, optimiser, metrics = learn(ppo, shuffle_key, learner, played, last_value)
    worlds = worlds._replace(over=worlds.over | ~played.noted[-1])  # what is not sound starts afresh
    return Learner(brain, optimiser, worlds, key, learner.iteration + 1), metrics


def learn(
    ppo: PPO, key: Key, learner: Learner, played: Played, last_value: Array
) -> tuple[Brain, Any, dict[str, Array]]:
    """Judge and improve: what an iteration does once it has played. What is not finite changes nothing."""
    advantage = advantages(played, last_value, ppo.discount, ppo.config.trace)
    target = advantage + played.value
    brain, batch = learner.brain, summed_up(learner.brain, played, advantage, target)
    if ppo.config.normalise_values:
        brain = rescaled(brain, brain.values.merge(*batch.target, batch.steps))
    standard = (advantage - batch.advantage.mean) / jnp.sqrt(batch.advantage.variance + 1e-8)
    brain, optimiser, metrics = improve(ppo, key, brain, learner.optimiser, played, standard, target)
    brain = quietened(ppo.config, brain, learner.iteration + 1)
    if ppo.config.normalise_inputs:
        brain = brain._replace(inputs=brain.inputs.merge(*batch.inputs, batch.steps))
    usable = (batch.unsound == 0) & finite((brain, optimiser, batch, metrics))
    brain, optimiser = select(usable, (brain, optimiser), (learner.brain, learner.optimiser))
    told = {"episodes": batch.ended, "return": batch.score, "skipped": 1.0 - usable}
    return brain, optimiser, {**metrics, **told}


def streams(key: Key) -> tuple[Key, Key, Key]:
    """(the next iteration's key, this device's key to play, and to shuffle)"""
    key, local = jax.random.split(key)
    play_key, shuffle_key = jax.random.split(jax.random.fold_in(local, jax.lax.axis_index(devices.WORLDS)))
    return key, play_key, shuffle_key


def is_sound(world: World, action: Action, following: World) -> Array:
    return jnp.stack(sound(following.situation)).all()


def play(
    ppo: PPO, key: Key, brain: Brain, worlds: World, note: Callable[[World, Action, World], Any] = is_sound
) -> tuple[World, Played, Array]:
    """Every world `length` steps on, with exploration noise."""
    network = brain.network
    count = worlds.over.shape[0]

    def look(worlds: World) -> tuple[Array, Array]:
        inputs = jax.vmap(partial(ppo.agent.inputs, ppo.mdp))(worlds.situation)
        return inputs, brain.values.restore(network.value(brain.inputs.normalise(inputs)))

    def body(carry: tuple[World, Array, Array], key: Key) -> tuple[tuple[World, Array, Array], Played]:
        worlds, inputs, value = carry
        noise_key, step_key = jax.random.split(key)
        mean = network.actor(brain.inputs.normalise(inputs))
        raw = mean + jnp.exp(network.log_std) * jax.random.normal(noise_key, mean.shape)
        actions = jax.vmap(ppo.agent.compose)(worlds.situation, raw)
        following, outcome = jax.vmap(ppo.mdp.step)(jax.random.split(step_key, count), worlds, actions)
        probability = log_prob(raw, mean, network.log_std)
        earned = outcome.reward + outcome.bonus
        live = ~worlds.over
        noted = jax.vmap(note)(worlds, actions, following)
        ends = (outcome.done, outcome.over)
        played = Played(inputs, raw, probability, value, earned, *ends, live, following.score, noted)
        return (following, *look(following)), played

    first = (worlds, *look(worlds))
    (worlds, _, last_value), played = jax.lax.scan(body, first, jax.random.split(key, ppo.config.length))
    return worlds, played, last_value


def advantages(played: Played, last_value: Array, discount: float, trace: float) -> Array:
    """Generalised advantage estimates, backwards once.

    After a step that ended its episode the next recorded value is that of the last situation, because the fresh
    start comes a step later: it is used after a time-out and not after a true end.
    """

    def body(carry: tuple[Array, Array], step: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        following, next_value = carry
        reward, value, done, over = step
        surprise = reward + discount * (1 - done) * next_value - value
        advantage = surprise + discount * trace * (1 - over) * following
        return (advantage, value), advantage

    steps = (played.reward, played.value, played.done.astype(jnp.float32), played.over.astype(jnp.float32))
    _, advantage = jax.lax.scan(body, (jnp.zeros_like(last_value), last_value), steps, reverse=True)
    return advantage


class Moments(NamedTuple):
    mean: Array
    variance: Array


class Summary(NamedTuple):
    """What an iteration's play amounts to, over all devices and live steps."""

    target: Moments
    advantage: Moments
    inputs: Moments
    steps: Array
    ended: Array  # episodes
    score: Array  # their mean return, exploration included
    unsound: Array  # steps that led to a state, belief or advice that is not finite


def summed_up(brain: Brain, played: Played, advantage: Array, target: Array) -> Summary:
    """All statistics in one message between the devices: several in no fixed order could wait for each other."""
    live = played.live.astype(jnp.float32)
    measured = (target, advantage, played.inputs)
    centres = (brain.values.mean, jnp.zeros(()), brain.inputs.mean)  # near the means: exact enough in 32 bits

    def sums(x: Array, centre: Array) -> Moments:
        weight, away = live.reshape(*live.shape, *[1] * (x.ndim - 2)), x - centre
        return Moments((weight * away).sum((0, 1)), (weight * away**2).sum((0, 1)))

    unsound = (~played.noted).sum().astype(jnp.float32)
    counts = (live.sum(), played.over.sum().astype(jnp.float32), (played.over * played.score).sum(), unsound)
    local = ([sums(x, centre) for x, centre in zip(measured, centres, strict=True)], counts)
    each, (steps, ended, score, unsound) = jax.tree.map(
        lambda x: x * jax.lax.psum(1, devices.WORLDS), everywhere(local)
    )

    def moments(total: Moments, centre: Array) -> Moments:
        first, second = total.mean / steps, total.variance / steps
        return Moments(centre + first, jnp.maximum(second - first**2, 0.0))

    target_, advantage_, inputs_ = (moments(total, centre) for total, centre in zip(each, centres, strict=True))
    return Summary(target_, advantage_, inputs_, steps, ended, score / jnp.maximum(ended, 1), unsound)


def everywhere(x: Any) -> Any:
    """The mean over all devices, as one message."""
    vector, unravel = ravel_pytree(x)
    return unravel(jax.lax.pmean(vector, devices.WORLDS))


def rescaled(brain: Brain, values: Normaliser) -> Brain:
    """The same value function in new units (PopArt: van Hasselt et al., 2016)."""
    old, critic = brain.values, brain.network.critic
    weight = critic.weights[-1] * old.std / values.std
    bias = (critic.biases[-1] * old.std + old.mean - values.mean) / values.std
    critic = eqx.tree_at(lambda c: (c.weights[-1], c.biases[-1]), critic, (weight, bias))
    return Brain(eqx.tree_at(lambda n: n.critic, brain.network, critic), brain.inputs, values)


def quietened(config: Config, brain: Brain, iteration: Array) -> Brain:
    """Exploration held under its ceiling, so that in the end what was trained is what is deployed: the mean."""
    share = 1 + (config.exploration_end - 1) * iteration / config.iterations
    ceiling = jnp.log(jnp.asarray(config.exploration) * jnp.maximum(share, 1e-3))
    log_std = brain.network.log_std
    if config.exploration_end < 1:
        log_std = jnp.minimum(log_std, ceiling)
    return brain._replace(network=eqx.tree_at(lambda n: n.log_std, brain.network, log_std))


class Minibatch(NamedTuple):
    inputs: Array
    raw: Array
    log_prob: Array
    advantage: Array
    target: Array
    weight: Array


def loss(network: ActorCritic, batch: Minibatch, config: Config) -> tuple[Array, dict[str, Array]]:
    """The clipped surrogate, the value error and the entropy. Weights of a whole minibatch sum to one."""
    mean = network.actor(batch.inputs)
    change = log_prob(batch.raw, mean, network.log_std) - batch.log_prob
    ratio = jnp.exp(change)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
    error = 0.5 * (network.value(batch.inputs) - batch.target) ** 2
    entropy = network.log_std.sum()
    average = lambda x: (x * batch.weight).sum()  # noqa: E731
    policy_loss, value_loss = -average(surrogate), average(error)
    total = policy_loss + config.value_weight * value_loss - config.entropy_weight * average(entropy)
    kl = average(ratio - 1 - change)  # Schulman's low-variance estimate
    share_clipped = average((jnp.abs(ratio - 1) > config.clip).astype(jnp.float32))
    return total, {"policy_loss": policy_loss, "value_loss": value_loss, "kl": kl, "clipped": share_clipped}


def gradient_of(network: ActorCritic, batch: Minibatch, config: Config) -> tuple[Any, dict[str, Array]]:
    """(gradient, metrics), summed over slices that stay in a core's cache: a third faster than all rows at once."""
    batch = batch._replace(weight=batch.weight / jnp.maximum(batch.weight.sum(), 1))
    count = devices.slices(batch.weight.shape[0])
    slices = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]), batch)
    part = lambda some: jax.grad(loss, has_aux=True)(network, some, config)  # noqa: E731
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, first(slices)))
    add = lambda total, some: (jax.tree.map(jnp.add, total, part(some)), None)  # noqa: E731
    return jax.lax.scan(add, nothing, slices)[0]


def shuffled(key: Key, count: int) -> Array:
    """A random order of `count` things: random bits above, the index below, one sort of plain numbers.

    Eight times as fast as `jax.random.permutation`; equal bits, which keep their order, do no harm to minibatches.
    """
    below = max(count - 1, 1).bit_length()
    bits = jax.random.bits(key, (count,), jnp.uint32) >> below << below
    mask = jnp.uint32((1 << below) - 1)
    return jnp.sort(bits | jnp.arange(count, dtype=jnp.uint32)) & mask


def improve(
    ppo: PPO, key: Key, brain: Brain, optimiser: Any, played: Played, advantage: Array, target: Array
) -> tuple[Brain, Any, dict[str, Array]]:
    """Epochs of minibatches on what was played."""
    config = ppo.config
    whole = Minibatch(
        brain.inputs.normalise(played.inputs),
        played.raw,
        played.log_prob,
        advantage,
        brain.values.normalise(target),
        played.live.astype(jnp.float32),
    )
    whole = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)

    def update(carry: tuple, batch: Minibatch) -> tuple[tuple, dict[str, Array]]:
        network, state, stopped = carry
        gradient, metrics = everywhere(gradient_of(network, batch, config))
        change, new_state = ppo.optimiser.update(gradient, state)
        new = (optax.apply_updates(network, change), new_state)
        if config.target_kl is not None:
            stopped = stopped | (metrics["kl"] > config.target_kl)
            new = jax.tree.map(lambda a, b: jnp.where(stopped, a, b), (network, state), new)
        return (*new, stopped), metrics

    def epoch(carry: tuple, key: Key) -> tuple[tuple, dict[str, Array]]:
        order = shuffled(key, whole.weight.shape[0])
        batches = jax.tree.map(lambda x: x[order].reshape(config.minibatches, -1, *x.shape[1:]), whole)
        return jax.lax.scan(update, carry, batches)

    start = (brain.network, optimiser, jnp.bool_(False))
    (network, optimiser, _), metrics = jax.lax.scan(epoch, start, jax.random.split(key, config.epochs))
    return brain._replace(network=network), optimiser, jax.tree.map(jnp.mean, metrics)


def first(many: Any) -> Any:
    """The first row of every leaf."""
    return jax.tree.map(lambda x: x[0], many)
