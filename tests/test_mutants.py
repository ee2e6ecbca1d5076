"""The list of planted faults is in step with the code; `make mutants` plants them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import mutants  # noqa: E402

LISTED = mutants.read_mutants()


def test_every_fault_can_still_be_planted():
    assert [mutant.name for mutant in LISTED if not mutants.fits(mutant)] == []


def test_every_test_that_must_fail_exists():
    missing = {mutant.name: mutants.missing_tests(mutant) for mutant in LISTED}
    assert {name: tests for name, tests in missing.items() if tests} == {}
    assert all(mutant.tests for mutant in LISTED)


def test_every_fault_has_a_name_and_a_place_of_its_own():
    assert max(Counter(mutant.name for mutant in LISTED).values()) == 1
    assert max(Counter((each.file, each.old, each.new) for each in LISTED).values()) == 1


def test_what_does_not_fit_is_noticed():
    mutant = LISTED[0]
    twice = "import"
    assert not mutants.fits(mutant._replace(old=twice))
    assert not mutants.fits(mutant._replace(old="no such text"))
    assert not mutants.fits(mutant._replace(new=mutant.old))
    assert not mutants.fits(mutant._replace(file="no/such/file.py"))
    file = mutant.tests[0].partition("::")[0]
    for test in (f"{file}::test_that_does_not_exist", "tests/test_no_such_file.py"):
        assert mutants.missing_tests(mutant._replace(tests=(test,))) == [test]


def test_what_fails_without_a_fault_is_found_by_file_function_and_parameters():
    failed = ["tests/test_a.py::test_one[3]", "tests/test_b.py"]
    assert mutants.is_among("tests/test_a.py::test_one", failed)
    assert mutants.is_among("tests/test_a.py", failed)
    assert mutants.is_among("tests/test_b.py::test_any", failed)
    assert not mutants.is_among("tests/test_a.py::test_on", failed)
    assert not mutants.is_among("tests/test_c.py", failed)
