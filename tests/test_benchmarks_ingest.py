import json

import pytest

from benchmarks import ingest


@pytest.mark.long
def test_engines_agree_and_the_ingestion_is_measured(tmp_path):
    result = ingest.ingestion(2000, 2000, tmp_path)
    assert [row["engine"] for row in result["engines"]] == list(ingest.ENGINES)
    assert len({row["pairs"] for row in result["engines"]}) == 1
    row = result["ingestion"]
    assert row["pairs"] == result["csv"]["pairs"] == result["engines"][0]["pairs"]
    assert result["csv"]["output_bytes"] == row["output_bytes"]
    assert "| | from Parquet | from CSV |" in ingest.table(result)
    assert row["peak_gib"] > 0.01
    assert row["stages"][0][0] == "reading the edges"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "ingest.json").write_text(json.dumps(result))
    part = {**result, "engines": [], "ingestion": None, "origins": {"engines": {"date": "later"}}}
    merged = ingest.merged(part, tmp_path / "ingest.json")
    assert merged["ingestion"]["pairs"] == row["pairs"]
    assert len(merged["engines"]) == 3
    kept = {key: result["origins"][key] for key in ("ingestion", "csv")}
    assert merged["csv"] == result["csv"]
    assert merged["origins"] == {"engines": {"date": "later"}, **kept}
