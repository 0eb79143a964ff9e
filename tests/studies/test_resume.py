"""Parts of a study are made once for one question."""

from dmverify.studies.resume import kept


def asked(folder, **key):
    made = []
    part = kept(folder, key, lambda: made.append(1) or {"x": 0.1})
    assert part == {"x": 0.1}
    return len(made)


def test_the_same_question_is_answered_from_the_file(tmp_path):
    assert asked(tmp_path, name="a", seed=0) == 1
    assert asked(tmp_path, name="a", seed=0) == 0
    assert asked(tmp_path, name="a", seed=1) == 1


def test_another_question_under_the_same_name_is_not(tmp_path):
    """Two keys whose values read alike."""
    assert asked(tmp_path, name="a-1", seed=2) == 1
    assert asked(tmp_path, name="a", seed="1-2") == 1
    assert asked(tmp_path, name="a-1", seed=2) == 1


def test_nothing_is_kept_without_a_folder():
    assert asked(None, name="a") == asked(None, name="a") == 1
