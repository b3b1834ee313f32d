"""A made-up research problem on which an agent's behaviour costs milliseconds and no money.

The metric is a known function of the edits, so the optimum is known too. Session, journal,
operators and agent are the real ones; only the evaluation and the language model are replaced. What
it shows is how a policy spends its steps; it says nothing about any model or any real task.
"""

from fml_hydra.simulation.landscape import DENSITIES, Landscape, make_landscape
from fml_hydra.simulation.measures import Behaviour, behaviour
from fml_hydra.simulation.model import SyntheticLLM
from fml_hydra.simulation.run import Simulation, simulate

__all__ = [
    "DENSITIES",
    "Behaviour",
    "Landscape",
    "Simulation",
    "SyntheticLLM",
    "behaviour",
    "make_landscape",
    "simulate",
]
