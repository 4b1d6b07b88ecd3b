from epagcl.paper.drawing import legend, new_figure, save, was_drawn


def test_panels_are_listed_row_by_row_without_a_frame():
    figure, panels = new_figure(2, 3, 6, 4)
    assert panels == figure.axes
    assert len(panels) == 6
    assert not panels[0].spines["top"].get_visible()
    _, (polar,) = new_figure(1, 1, 3, 3, subplot_kw={"projection": "polar"})
    assert polar.name == "polar"


def test_files_have_their_source_in_the_metadata_and_are_reproducible(tmp_path):
    def draw(folder):
        figure, (axes,) = new_figure(1, 1, 2, 2)
        axes.plot([0, 1], [0, 1], label="a line")
        legend(figure, axes, 1)
        return save(figure, folder / "f", "abc123")

    svg, png = draw(tmp_path / "one")
    assert (svg.name, png.name) == ("f.svg", "f.png")
    assert "source abc123" in svg.read_text(encoding="utf-8")
    assert ">a line<" in svg.read_text(encoding="utf-8")  # text stays text
    assert b"source abc123" in png.read_bytes()
    assert [path.read_bytes() for path in draw(tmp_path / "two")] == [svg.read_bytes(), png.read_bytes()]


def test_figures_are_told_from_other_files(tmp_path):
    figure, _ = new_figure(1, 1, 2, 2)
    assert all(was_drawn(path) for path in save(figure, tmp_path / "f", "0123456789abcdef"))
    (tmp_path / "other.png").write_bytes(b"\x89PNG")
    (tmp_path / "notes.txt").write_text("source 0123456789abcdef")
    (tmp_path / "folder.svg").mkdir()
    assert not any(was_drawn(tmp_path / name) for name in ("other.png", "notes.txt", "folder.svg", "none.svg"))
