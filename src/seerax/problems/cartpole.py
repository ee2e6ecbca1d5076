"""Cartpole with unknown cart mass and pole length and a noisy motor: keep the pole upright.

The rules follow the paper; masses, time step, noise, start and the regulators' cost of states are
the constants of the authors' code. See docs/problems.md.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, Step
from seerax.experts import lqr
from seerax.filters import Categorical

# ---- constants -----------------------------------------------------------------------------------

LOW, HIGH = 0.5, 2.0  # of the cart's mass (kg) and of half the pole's length (m)
CELLS = 3  # per latent
CELL = (HIGH - LOW) / CELLS  # side of a cell
POLE_MASS, GRAVITY = 0.1, 9.8
SECONDS = 0.02  # one step
NEWTONS = 10.0  # per unit of action
STRONGEST = 10.0  # action
NOISE = 3.0  # std, in units of action
START = 0.5  # all four numbers of the state ~ U(-START, START)
EDGE, TOPPLED = 4.0, 1.2  # the episode fails beyond these, in m and rad
ROUNDING = 0.01  # m/s^2: the rounding error of an acceleration in single precision
STATE_COST = np.diag([100.0, 1.0, 500.0, 1.0])  # Q of the regulators
CONTROL_COST = np.array([[4.0]])  # R
NODES = 25  # per latent, of the lattice of regulators

# ---- state ---------------------------------------------------------------------------------------


class CartpoleState(NamedTuple):
    """Position (m), velocity, angle (rad) and angular velocity: all scalars."""

    position: Array
    velocity: Array
    angle: Array  # 0 is upright
    spin: Array


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cartpole:
    """Cartpole, where the latent is (cart mass, half the pole's length).

    The action is one number, the horizontal force in units of 10 N.
    """

    noise: float = NOISE
    cell: float = CELL  # the filter's hypotheses are cells of this side; 0: exactly its support
    horizon: int = 500
    discount: float = 1.0
    action_low: tuple[float, ...] = (-STRONGEST,)
    action_high: tuple[float, ...] = (STRONGEST,)

    def prior(self, key: Key) -> Latent:
        return jax.random.uniform(key, (2,), minval=LOW, maxval=HIGH)

    def reset(self, key: Key, latent: Latent) -> CartpoleState:
        return CartpoleState(*jax.random.uniform(key, (4,), minval=-START, maxval=START))

    def step(self, key: Key, state: CartpoleState, action: Action, latent: Latent) -> Step:
        force = NEWTONS * (action[0] + self.noise * jax.random.normal(key))
        state = push(state, force, latent)
        failed = (jnp.abs(state.position) > EDGE) | (jnp.abs(state.angle) > TOPPLED)
        return Step(state, jnp.float32(1), failed)

    def features(self, state: CartpoleState) -> Array:
        return jnp.stack(state)

    def succeeded(self, state: CartpoleState, latent: Latent, terminated: Array) -> Array:
        """True if the pole is still upright when the time is up."""
        return ~terminated

    def log_likelihood(
        self, state: CartpoleState, action: Action, next_state: CartpoleState, latent: Latent
    ) -> Array:
        """Returns the log-density of both accelerations, up to a constant.

        The cart's acceleration is Gaussian through the noisy force; the pole's follows from it.
        Both are also uncertain because the latent may lie anywhere in its cell: the variance of the
        latent within the cell is propagated to them.
        """
        cart = (next_state.velocity - state.velocity) / SECONDS
        pole = (next_state.spin - state.spin) / SECONDS
        force = NEWTONS * action[0]
        expected, (per_newton, slope) = jax.value_and_grad(cart_acceleration, (1, 2))(
            state, force, latent
        )
        told = log_normal(
            cart - expected, (per_newton * NEWTONS * self.noise) ** 2 + self._tolerance(slope)
        )
        expected, slope = jax.value_and_grad(pole_acceleration, 2)(state, cart, latent)
        return told + log_normal(pole - expected, self._tolerance(slope))

    def _tolerance(self, slope: Array) -> Array:
        """Returns the variance of a quantity with this slope in a latent uniform over its cell."""
        return (slope**2).sum() * self.cell**2 / 12 + ROUNDING**2

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_cartpole(ax, situation, action, latent)


def push(state: CartpoleState, force: Array, latent: Latent) -> CartpoleState:
    """Returns the state after one explicit Euler step."""
    position, velocity, angle, spin = state
    cart = cart_acceleration(state, force, latent)
    pole = pole_acceleration(state, cart, latent)
    return CartpoleState(
        position + SECONDS * velocity,
        velocity + SECONDS * cart,
        angle + SECONDS * spin,
        spin + SECONDS * pole,
    )


def cart_acceleration(state: CartpoleState, force: Array, latent: Latent) -> Array:
    """Solves M x'' + m l (theta'' cos theta - theta'^2 sin theta) = F for x''.

    Here M is the mass of cart and pole together, and theta'' that of `pole_acceleration`.
    """
    mass, length = latent
    sine, cosine = jnp.sin(state.angle), jnp.cos(state.angle)
    pulled = POLE_MASS * sine * (length * state.spin**2 - 0.75 * GRAVITY * cosine)
    return (force + pulled) / (mass + POLE_MASS - 0.75 * POLE_MASS * cosine**2)


def pole_acceleration(state: CartpoleState, cart: Array, latent: Latent) -> Array:
    """Solves 4/3 l theta'' = g sin theta - x'' cos theta for theta''.

    The force moves the pole only through the cart.
    """
    return 0.75 * (GRAVITY * jnp.sin(state.angle) - cart * jnp.cos(state.angle)) / latent[1]


def log_normal(residual: Array, variance: Array) -> Array:
    """Returns the log-density of N(0, variance) at the residual, up to a constant."""
    return -0.5 * (residual**2 / variance + jnp.log(variance))


# ---- expert --------------------------------------------------------------------------------------


def regulator() -> Expert:
    """Creates the linear-quadratic regulator of the upright pole, given mass and length."""

    def dynamics(state: Array, control: Array, latent: Array) -> Array:
        return jnp.stack(push(CartpoleState(*state), NEWTONS * control[0], latent))

    def act(state: CartpoleState, gain: Array) -> Action:
        return jnp.clip(-gain @ jnp.stack(state), -STRONGEST, STRONGEST)

    return Expert(lqr.gains(dynamics, STATE_COST, CONTROL_COST, LOW, HIGH, NODES), act)


# ---- builder -------------------------------------------------------------------------------------


def grid(cells: int) -> Array:
    """Returns the centres of cells x cells equal squares, [cells^2, 2], in rows of equal mass."""
    side = (HIGH - LOW) / cells
    centres = LOW + side * (np.arange(cells) + 0.5)
    return jnp.array(list(itertools.product(centres, centres)), jnp.float32)


def cartpole() -> BeliefMDP:
    """Builds a belief over the cells of a coarse grid and the weighted sum of their regulators."""
    problem = Cartpole()
    expert = regulator()
    filter = Categorical(grid(CELLS), problem.log_likelihood)
    return BeliefMDP(problem, filter, advice.weighted(filter, expert), expert)


# ---- drawing -------------------------------------------------------------------------------------

CART_HEIGHT, WHEEL = 0.45, 0.12
ARROW = 0.18  # metres per unit of action
MAP_SIDE, MAP_CORNER = 2.1, np.array([-1.05, -3.0])  # the picture of the belief


def draw_cartpole(ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws cart and pole, the forces taken and advised, the belief and the true latent."""
    from seerax.drawing import Pen  # imports matplotlib, which only drawing needs

    state, belief, advised = situation
    pen = Pen(ax)
    pen.page(-4.4, 4.4, -3.4, 5.0)
    pen.lines([[(-EDGE, 0), (EDGE, 0)]], "wall", 3)
    pen.lines([[(side * EDGE, -0.25), (side * EDGE, 0.25)] for side in (-1, 1)], "wall", 3)
    draw_cart(pen, state, latent)
    for force, width, colour in ((action[0], 0.12, "action"), (advised[0], 0.045, "advice")):
        side = np.sign(force) * cart_width(latent) / 2
        pen.arrow(
            (state.position + side, CART_HEIGHT / 2 + 2 * WHEEL),
            (ARROW * force, 0.0),
            width,
            colour,
        )
    draw_grid(pen, np.exp(belief), latent)


def cart_width(latent: Latent) -> float:
    """Returns the width of the cart in the drawing: the heavier, the wider."""
    return 0.5 + 0.5 * float(latent[0])


def draw_cart(pen: Any, state: CartpoleState, latent: Latent) -> None:
    """Draws the cart on its wheels, the pole and the hinge between them."""
    x = state.position
    width = cart_width(latent)
    hinge = np.array([x, CART_HEIGHT + 2 * WHEEL])
    tip = hinge + 2 * latent[1] * np.array([np.sin(state.angle), np.cos(state.angle)])
    for side in (-0.3, 0.3):
        pen.disc((x + side * width, WHEEL), WHEEL, "ink")
    pen.box((x - width / 2, 2 * WHEEL), width, CART_HEIGHT, "agent", "agent", round=0.06)
    pen.lines([[hinge, tip]], "faint", 6)
    pen.disc(hinge, 0.09, "ink", name="hinge")


def draw_grid(pen: Any, chances: np.ndarray, latent: Latent) -> None:
    """Draws each cell with its probability as opacity, and a star at the true latent.

    Mass increases to the right, length upwards.
    """
    side = MAP_SIDE / CELLS
    for (i, j), chance in zip(np.ndindex(CELLS, CELLS), chances, strict=True):
        corner = MAP_CORNER + side * np.array([i, j])
        pen.box(corner, side, side, "belief", "belief", line=0).set(alpha=float(chance), gid="cell")
    lines = [[(0, k), (CELLS, k)] for k in range(CELLS + 1)] + [
        [(k, 0), (k, CELLS)] for k in range(CELLS + 1)
    ]
    pen.lines(MAP_CORNER + side * np.array(lines), "faint")
    pen.star(MAP_CORNER + MAP_SIDE * (np.asarray(latent) - LOW) / (HIGH - LOW), 11)
    pen.text(MAP_CORNER + np.array([MAP_SIDE / 2, -0.16]), "mass", 9)
    pen.text(MAP_CORNER + np.array([-0.16, MAP_SIDE / 2]), "length", 9, rotation=90)
