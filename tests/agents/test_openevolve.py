"""OpenEvolve: cells, islands in turn, migration, parents, inspirations."""

import random
from collections import Counter

import pytest
from folding import PRISTINE, Scribe, chance, grow, history, node

from fml_hydra.agents.openevolve import REFERENCES, SEED, Archive, OpenEvolve, Program, difference
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, make_landscape, simulate

KNOBS = {
    "islands": 3,
    "bins": 5,
    "archive_size": 30,
    "exploration": 0.2,
    "exploitation": 0.7,
    "migration_interval": 10,
    "migration_share": 0.1,
    "top": 3,
    "diverse": 2,
    "debug_prob": 0.3,
    "max_debug_depth": 2,
}


def policy(**knobs) -> OpenEvolve:
    return OpenEvolve(**{**KNOBS, **knobs})


def on(node_id, utility, island, **extra):
    return node(node_id, utility, meta={"island": island}, **extra)


def filled(*islands: list[Program]) -> Archive:
    archive = Archive(5, [{} for _ in islands])
    for at, programs in enumerate(islands):
        for program in programs:
            archive.settle(at, program)
    return archive


def ids(archive: Archive) -> list[list[int]]:
    return [sorted(p.id for p in island.values()) for island in archive.islands]


def test_a_cell_keeps_the_better_and_the_earlier_on_ties():
    cell = (1, 2)
    archive = filled([Program(0, 1.0, cell), Program(1, 0.5, cell), Program(2, 1.0, cell)])
    assert ids(archive) == [[0]]
    archive.settle(0, Program(3, 1.5, cell))
    archive.settle(0, Program(4, -1.0, (0, 0)))
    assert ids(archive) == [[3, 4]]


def test_difference_is_the_share_of_lines_that_only_one_text_has():
    assert difference("a\nb\nc", "a\nb\nc") == 0.0
    assert difference("a\nb", "b\nc") == pytest.approx(2 / 3)
    assert difference("a", "b") == 1.0


def test_features_are_length_and_mean_difference_in_the_range_so_far():
    archive, cells = Archive(4, [{}]), []
    for node_id, text in enumerate(["a", "a\nb", "a\nb\nc\nd", "a\nb\nc"]):
        archive.place([0], node_id, float(node_id), text)
        cells += [cell for cell, p in archive.islands[0].items() if p.id == node_id]
    assert archive.features[1] == (3.0, 0.5)
    assert archive.features[3] == pytest.approx((5.0, (2 / 3 + 1 / 3 + 1 / 4) / 3))
    # no range yet; the end of both ranges; the same; 4 / 6 and 0.417 / 0.625 of them, in 4 bins
    assert cells == [(0, 0), (3, 3), (3, 3), (2, 2)]


def test_only_the_latest_programs_count_for_difference():
    archive = Archive(4, [{}])
    for node_id in range(REFERENCES):
        archive.place([0], node_id, 0.0, "same")
    archive.place([0], 99, 0.0, "other")
    assert archive.features[-1][1] == 1.0
    for _ in range(REFERENCES):
        archive.place([0], 100, 0.0, "same")
    assert archive.features[-1][1] == pytest.approx(1 / REFERENCES)


def test_migrants_go_to_both_neighbours_and_never_again():
    cells = [(0, i) for i in range(5)]
    archive = filled(
        [Program(SEED, 9.0, cells[0]), Program(1, 3.0, cells[1]), Program(2, 2.0, cells[2])],
        [Program(3, 1.0, cells[1])],
        [Program(4, 1.0, cells[3])],
        [],
    )
    archive.migrate(0.1)
    assert archive.migrated == {1, 3, 4}
    assert ids(archive) == [[SEED, 1, 2], [1, 4], [3, 4], [1, 4]]
    archive.migrate(0.1)  # of the others only 2 has never migrated
    assert archive.migrated == {1, 2, 3, 4}
    assert ids(archive) == [[SEED, 1, 2], [1, 2, 4], [3, 4], [1, 2, 4]]


def test_the_share_that_migrates():
    archive = filled([Program(i, float(i), (i // 5, i % 5)) for i in range(20)], [])
    archive.migrate(0.1)
    assert archive.migrated == {19, 18}


def test_islands_take_turns_and_every_island_starts_with_the_baseline():
    past = grow(policy(), chance(0.3), steps=60, k=1)
    assert [n.meta["island"] for n in past] == [i % 3 for i in range(60)]
    assert [n.op for n in past][:3] == ["draft"] * 3
    actions = policy().propose(history(), 5, random.Random(0), Scribe())
    assert [a.meta["island"] for a in actions] == [0, 1, 2, 0, 1]


def test_a_migration_comes_after_so_many_generations():
    chosen, scribe = policy(migration_interval=4, debug_prob=0.0), Scribe()
    past = grow(chosen, chance(0.0), steps=26)

    def migrated(steps):
        return chosen.archive(history(*list(past)[:steps]), scribe).migrated

    assert migrated(11) == set()
    assert 3 >= len(migrated(12)) > 0
    assert migrated(23) == migrated(12) < migrated(24)


def test_parents_are_elites_of_the_island_whose_turn_it_is():
    chosen, scribe = policy(), Scribe()
    past = grow(chosen, chance(0.2), steps=80)
    for n in past:
        if n.op == "debug":
            assert past[n.parents[0]].meta["island"] == n.meta["island"]
            continue
        archive = chosen.archive(history(*list(past)[: n.id]), scribe)
        elites = {p.id for p in archive.islands[n.meta["island"]].values()}
        assert set(n.parents or (SEED,)) <= elites
        shown = n.meta["inspirations"]
        assert set(shown) <= elites - {SEED, *n.parents}
        assert len(shown) == min(5, len(elites - {SEED, *n.parents}))
        utilities = [past[i].utility for i in shown]
        assert utilities[:3] == sorted(utilities, reverse=True)[:3]


def test_parents_come_from_the_island_from_the_archive_or_by_fitness():
    nodes = [on(i, float(i), 0, snapshot={"a.py": "z\n" * 3**i}) for i in range(8)]
    past = history(*nodes, baseline=-1.0)

    def drawn(**knobs):
        chosen = policy(islands=1, archive_size=1, debug_prob=0.0, bins=100, **knobs)
        found = [chosen.propose(past, 1, random.Random(s), Scribe())[0] for s in range(400)]
        return Counter(a.parents[0] if a.parents else SEED for a in found)

    anywhere = drawn(exploration=1.0, exploitation=0.0)
    population = set(anywhere)
    assert len(population) >= 4
    assert min(anywhere.values()) > 0.5 * 400 / len(population)
    assert set(drawn(exploration=0.0, exploitation=1.0)) == {7}
    fit = drawn(exploration=0.0, exploitation=0.0)
    assert fit[7] > 400 / len(population) > 10 * fit[SEED]
    mixed = drawn(exploration=0.2, exploitation=0.7)
    assert 0.7 < mixed[7] / 400 < 0.85


def test_broken_programs_are_debugged_now_and_then_and_never_for_long():
    past = grow(policy(), lambda i, action, past: None, steps=90)
    assert max(past.debug_depth(n) for n in past) == 2
    past = grow(policy(), chance(0.5), steps=120)
    could = share = 0
    for n in past:
        before = history(*(m for m in past if m.id < n.id))
        broken = [m for m in before.debuggable(1) if m.meta["island"] == n.meta["island"]]
        could, share = could + bool(broken), share + (n.op == "debug")
    assert 0.2 < share / could < 0.4
    assert "debug" not in {n.op for n in grow(policy(debug_prob=0.0), chance(0.5), steps=60)}


@pytest.mark.parametrize("failures", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_what_holds_in_any_world(failures, k):
    for seed in range(2):
        past = grow(policy(), chance(failures, seed), steps=60, k=k, seed=seed)
        for n in past:
            assert all(past[p].ok for p in n.parents) != (n.op == "debug")
            assert all(past[i].ok for i in n.meta.get("inspirations", ()))
        debugged = [n.parents for n in past if n.op == "debug"]
        assert len(debugged) == len(set(debugged))


def test_the_pristine_program_is_the_seed():
    archive = policy().archive(history(baseline=0.5), Scribe())
    assert archive.texts == list(PRISTINE.values())
    assert ids(archive) == [[SEED]] * 3
    assert {p.utility for island in archive.islands for p in island.values()} == {0.5}


def test_on_the_simulator_islands_are_visited_equally_and_exchange_their_best():
    agent = load_experiment(compose_config(["agent=openevolve"])).agent
    run = simulate(agent, make_landscape(DENSITIES["dense"], seed=1), steps=60, seed=1, slots=3)
    assert Counter(n.meta["island"] for n in run.history) == {0: 20, 1: 20, 2: 20}
    strangers = [
        n
        for n in run.history
        if n.op != "debug"
        and any(run.history[p].meta["island"] != n.meta["island"] for p in n.parents)
    ]
    assert strangers
    assert min(n.id for n in strangers) >= 30  # after the first migration
