import pandas as pd
import pytest

from epagcl.core.errors import InputError
from epagcl.data.disk.ingest.edge_rows import PROBLEMS, ROWS, edge_source, judge_bad_rows, write_rows
from epagcl.data.disk.ingest.work import quoted
from epagcl.data.io.edge_list import EdgeList
from epagcl.data.io.roles import OPTION, Roles
from epagcl.data.io.tables.files import open_table


def rows_of(work, path, roles=Roles()):  # noqa: B008
    source = edge_source(path, roles)
    found = write_rows(source, work)
    return source, found, work.sql(f"SELECT * FROM '{quoted(work.path(ROWS))}' ORDER BY row")


def test_lines_are_split_and_numbered_as_in_the_file(work, tmp_path):
    path = tmp_path / "it's.csv"
    text = '# c\r\nsource,target,note\r\na,b,x\r\n\r\n%,comment\r\n "a,1" ,"b ""2""",\r\n   \r\nc,d\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    _, found, rows = rows_of(work, path)
    assert [(row, one.strip(), two.strip(), problem) for row, one, two, problem in rows] == [
        (3, "a", "b", 0), (6, "a,1", 'b "2"', 0), (8, "c", "d", 0),
    ]  # fmt: skip
    assert found == {"rows": 3, "bad": 0, "examples": [], "integers": False}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a,b,1,2", 1),
        ('a,"b,1', 2),
        (",b,1", 3),
        ("\u2003,b,1", 3),
        ("a", 4),
        ("a,b,-1", 5),
        ("a,b,NaN", 5),
        ("a,b,", 5),
    ],
)
def test_each_problem_of_a_line_is_found(work, tmp_path, line, problem):
    path = tmp_path / "e.csv"
    path.write_text(f"source,target,weight\na,b,1\n{line}\nb,c,2.5\n")
    source, found, rows = rows_of(work, path)
    assert [each[-1] for each in rows] == [0, problem, 0]
    assert rows[2][3] == 2.5
    assert found["examples"] == [f"line 3 ({PROBLEMS[problem]})"]
    with pytest.raises(InputError, match=r"1 bad row of 3: line 3 \(.*\); correct them, or give --bad-rows skip"):
        judge_bad_rows(found, source, Roles(argument=OPTION), "refuse")


def test_lines_after_an_unreadable_one_keep_their_numbers(work, tmp_path):
    (tmp_path / "e.txt").write_bytes(b"a b\n\xff\xfe b\nb c\nb\nc d\n")
    _, found, _ = rows_of(work, tmp_path / "e.txt")
    assert (found["rows"], found["bad"]) == (5, 2)
    assert found["examples"] == ["line 2 (not UTF-8 text)", "line 4 (the target id is missing)"]


def test_no_usable_row_is_told(work, tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n,b\n")
    source, found, _ = rows_of(work, tmp_path / "e.csv")
    with pytest.raises(InputError, match=r"e\.csv: no edges; a graph needs at least one"):
        judge_bad_rows(found, source, Roles(), "skip")


@pytest.mark.parametrize(
    ("source", "target", "integers", "first"),
    [([5, 6], [6, 7], True, 5), ([5.0, 6.0], [6.0, 7.0], False, "5.0"), (["5", "6"], [6, 7], False, "5")],
)
def test_parquet_ids_are_integers_or_text(work, tmp_path, source, target, integers, first):
    frame = pd.DataFrame({"source": source, "target": target}, index=[9, 8])
    frame.to_parquet(tmp_path / "e.parquet")
    _, found, rows = rows_of(work, tmp_path / "e.parquet")
    assert found["integers"] == integers
    assert rows[0] == (0, first, type(first)(target[0]), 0)


def test_the_index_of_pandas_may_be_an_end(work, tmp_path):
    frame = pd.DataFrame({"to": ["b", "c"]}, index=pd.Index(["a", "b"], name="from"))
    frame.to_parquet(tmp_path / "e.parquet")
    _, _, rows = rows_of(work, tmp_path / "e.parquet")
    assert [each[1:3] for each in rows] == [("a", "b"), ("b", "c")]


COMMAS = ["1,5", "2", "1.234,50", "0,250"]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (COMMAS, [1.5, 2.0, 1234.5, 0.25]),
        ([*COMMAS, "-1,5", "x"], [1.5, 2.0, 1234.5, 0.25, None, None]),
        ([*COMMAS, "2.5"], [None, 2.0, None, None, 2.5]),  # either the commas or the point would be wrong
        (["1,234", "2,345"], [None, None]),  # may be thousands
        (["1.5", " 2 "], [1.5, 2.0]),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "semicolons", "parquet"])
def test_weights_may_have_decimal_commas(work, tmp_path, weights, expected, kind):
    frame = pd.DataFrame({"source": "a", "target": "b", "weight": weights})
    path = tmp_path / ("e.parquet" if kind == "parquet" else "e.csv")
    if kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep=";" if kind == "semicolons" else ",", index=False)
    _, found, rows = rows_of(work, path)
    assert [weight if problem == 0 else None for _, _, _, weight, *_, problem in rows] == expected
    assert found["bad"] == expected.count(None)
    if None not in expected:
        assert EdgeList(open_table(path)).weights().tolist() == expected


def test_kinds_of_edges_are_merged_with_a_notice(work, tmp_path, caplog):
    (tmp_path / "e.csv").write_text("source,target,type\na,b,mail\nb,c,call\n")
    edge_source(tmp_path / "e.csv", Roles())
    assert "e.csv: the kinds of edges in column 'type' are merged; a graph on disk has one" in caplog.messages
    caplog.clear()
    edge_source(tmp_path / "e.csv", Roles(type="none"))
    assert "merged" not in caplog.text


@pytest.mark.parametrize("bad", ["", "only one\n", 'x\t"y\n'], ids=["good", "short", "open quote"])
def test_a_header_that_is_marked_as_a_comment(work, tmp_path, bad):
    (tmp_path / "e.tsv").write_text(f"# file of STRING\n#gene1\tgene2\na\tb\n{bad}b\tc\n")
    source, found, rows = rows_of(work, tmp_path / "e.tsv")
    assert source.table.header
    assert [each[:3] for each in rows if each[-1] == 0] == [(3, "a", "b"), (4 + bool(bad), "b", "c")]
    assert found["bad"] == bool(bad)
