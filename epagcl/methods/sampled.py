"""Methods that train on subgraphs and embed by chunks of rows, for graphs larger than the memory of a device."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.core.log import log
from epagcl.core.streamed import check_temporary_space
from epagcl.data.checking import check
from epagcl.data.large import Arrays, GraphArrays, LargeGraph, is_arrays
from epagcl.data.structural.features import positions_in
from epagcl.data.subgraphs import KINDS, Subgraphs
from epagcl.distributed.group import active_ranks
from epagcl.evaluation.health import Finding
from epagcl.methods.base import Method
from epagcl.methods.columns import column_names, match_columns
from epagcl.methods.inputs import arrays_to_embed, device_of, has_weights, tell_weights
from epagcl.methods.local import rotated
from epagcl.methods.plan import too_large
from epagcl.methods.relations import note_merged
from epagcl.methods.settings import method_settings, setting
from epagcl.training.history import examine
from epagcl.training.loop import train


@method_settings
class Sampled(Method):
    """A method whose loss can be computed on a subgraph and whose embedding can be computed by chunks of rows.

    With subgraphs, an epoch is one optimiser step on one subgraph, as it otherwise is one step on the whole graph. The
    subgraph of an epoch, its views and negatives depend on (seed, epoch) alone. Embeddings are exact: they are
    computed for the whole graph, layer by layer.
    """

    subgraphs: str = setting(
        "auto",
        "train on subgraphs: neighbours (sampled), partitions, or pyg (NeighborLoader); off: on the whole graph; "
        "auto: neighbours if the whole graph does not fit into memory",
        ("auto", "off", *KINDS),
    )
    subgraph_nodes: int = setting(8192, "the most nodes of a subgraph")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        self.check_at_least(2, "subgraph_nodes")

    def survey(self, graph: LargeGraph) -> Any:
        """Return what :meth:`prepare` needs of the whole graph; it is the attribute ``survey`` of each subgraph."""
        return None

    def calibrate_large(self, network: Any, graph: LargeGraph) -> None:
        """Do :meth:`calibrate` for a graph that is read by chunks of rows."""
        return

    @abstractmethod
    def columns_on_disk(self, network: Any) -> int:
        """Return the most columns of N numbers that :meth:`represent_chunks` has in temporary files at the same time.

        Sparse features need fewer.
        """

    @abstractmethod
    def represent_chunks(self, network: Any, graph: LargeGraph) -> Iterator[Tensor]:
        """Yield the rows of :meth:`represent` in chunks, for a graph that is read by chunks of rows."""

    # The estimator.

    def _fit(self, data: "Data | GraphArrays", **options: Any) -> None:
        """Train on the whole graph or on subgraphs, as ``subgraphs`` says."""
        kind = self._kind(data)
        if kind == "off":
            super()._fit(data, **options)
            return
        graph = self._training_graph(data)
        self.relation_names_, self.relation_strengths_ = [], []
        self.num_features_ = graph.num_features
        self.feature_names_, self.encoding_ = _columns(data)
        self.weighted_ = has_weights(data)
        self.network_ = self.initial_network().to(graph.device)
        check_temporary_space(graph.num_nodes, self.columns_on_disk(self.network_))  # before hours of training
        if type(self).trained:
            subgraphs = Subgraphs(graph, kind, self.subgraph_nodes, self.seed)
            subgraphs.survey = self.survey(graph)
            self.history_ = train(self, self.network_, subgraphs.at(0), subgraphs=subgraphs, **options)
        self._calibrate_large(graph)

    @torch.no_grad()  # of a generator: within it, not in the loop of the caller
    def embed_chunks(self, data: "Data | GraphArrays") -> Iterator[Tensor]:
        """Yield the embedding in chunks of rows, in memory that does not grow with the number of nodes times its width.

        The rows are those of :meth:`embed`, up to rounding. On several ranks, and if the model uses kinds or directions
        of edges, all rows are one chunk.

        Args:
            data: a graph, or a graph on disk, with the columns of the training graph.

        Examples:
            >>> import epagcl
            >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
            >>> model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit(data)
            >>> torch.allclose(torch.cat(list(model.embed_chunks(data))), model.embed(data), atol=1e-5)
            True
        """
        yield from self._chunks(data)
        tell_weights(self, data)

    def _chunks(self, data: "Data | GraphArrays") -> Iterator[Tensor]:
        network = self.fitted_network.eval()
        if self._needs_whole(data):
            yield super()._embed(data).cpu()
            return
        graph = self._matched(data)
        check_temporary_space(graph.num_nodes, self.columns_on_disk(network))
        for chunk in self.represent_chunks(network, graph):
            yield rotated(chunk, self.rotation_).cpu()

    def health(self, data: "Data | GraphArrays") -> list[Finding]:
        """Judge the embedding of a graph without labels; that of a large graph by one subgraph."""
        if not self._streams(data):
            return super().health(data)
        sample = Subgraphs(self._matched(data), "neighbours", self.subgraph_nodes, self.seed).at(0)
        kinds = None if isinstance(data, Data) else getattr(data, "kinds_of", lambda nodes: None)(sample.nodes.cpu())
        sample = replace(sample, kinds=None if kinds is None else kinds.to(sample.device))
        positions = positions_in(self.feature_names_)
        return examine(self, self.fitted_network, sample, trained=type(self).trained, edges_known=positions)

    @torch.no_grad()
    def _embed(self, data: "Data | GraphArrays", quiet: bool = False) -> Tensor:
        if not self._streams(data):
            return super()._embed(data, quiet)
        rows = len(data.indptr) - 1 if is_arrays(data) else data.num_nodes  # type: ignore[union-attr]
        out, start = None, 0
        for chunk in self._chunks(data):
            out = chunk.new_empty(rows, chunk.shape[1]) if out is None else out
            out[start : start + len(chunk)] = chunk
            start += len(chunk)
        assert out is not None
        return out

    def _kind(self, data: "Data | GraphArrays") -> str:
        """Return which subgraphs to train on, or "off" for the whole graph."""
        if active_ranks() is not None:
            if self.subgraphs not in ("auto", "off"):
                raise InputError(
                    f"subgraphs={self.subgraphs!r}: for one rank; set subgraphs='off', or start one process"
                )
            if is_arrays(data):
                raise InputError(
                    "graph: a graph on disk, and on several ranks; give a graph in memory (graph.to_data())"
                )
            return "off"
        if self.subgraphs != "auto":
            if self.subgraphs == "off" and is_arrays(data):
                raise InputError("subgraphs='off': give a graph in memory (graph.to_data()), or set subgraphs='auto'")
            return self.subgraphs
        if is_arrays(data):
            return "neighbours"
        note = too_large(self, data, resolve_device(self.device)) if _has_sizes(data) else None
        if note is None:
            return "off"
        words = (
            f"training on subgraphs of {self.subgraph_nodes:,} nodes" if type(self).trained else "reading it in chunks"
        )
        log.warning("%s; %s", note, words)
        return "neighbours"

    def _streams(self, data: "Data | GraphArrays") -> bool:
        """Return whether a graph is embedded by chunks of rows: if it is on disk, or too large for one pass."""
        device = device_of(self.fitted_network)
        if self._needs_whole(data) or not _has_sizes(data):
            return is_arrays(data)
        return too_large(self, data, device, training=False) is not None

    def _needs_whole(self, data: "Data | GraphArrays") -> bool:
        """Return whether a graph cannot be embedded by chunks of rows. Raise if it is on disk then."""
        whole = bool(self.relation_names_) or active_ranks() is not None
        if whole and is_arrays(data):
            reason = "the model uses kinds or directions of edges" if self.relation_names_ else "on several ranks"
            raise InputError(f"graph: a graph on disk, and {reason}; give a graph in memory (graph.to_data())")
        return whole

    def _training_graph(self, data: "Data | GraphArrays") -> LargeGraph:
        """Return a training graph that is read by chunks of rows. Its relations are merged."""
        if isinstance(data, Data):
            data = check(data, labels=False)
            note_merged(type(self), data.get("relation_names", ()), where=" on whole graphs")
        return self._large(data, resolve_device(self.device))

    def _large(self, data: "Data | GraphArrays", device: torch.device) -> LargeGraph:
        """Return a graph that is read by chunks of rows."""
        arrays = Arrays.from_data(data) if isinstance(data, Data) else data
        return LargeGraph(arrays, device, self.feature_scaling)

    def _matched(self, data: "Data | GraphArrays") -> LargeGraph:
        """Return a graph to embed. Raise unless it has the columns of the training graph."""
        if not isinstance(data, Data):
            return arrays_to_embed(self, data)
        data = check(data, labels=False, quiet=True)
        data = match_columns(data, self.feature_names_, self.num_features_, self.encoding_)
        return self._large(data, device_of(self.fitted_network))

    @torch.no_grad()
    def _calibrate_large(self, graph: LargeGraph) -> None:
        self.calibrate_large(self.network_.eval(), graph)


def _has_sizes(data: object) -> bool:
    """Return whether a graph in memory has the tensors by which its size is judged; ``check`` rejects all others."""
    tensors = (data.x, data.edge_index) if isinstance(data, Data) else ()
    return bool(tensors) and all(isinstance(tensor, Tensor) and tensor.dim() == 2 for tensor in tensors)


def _columns(data: "Data | GraphArrays") -> tuple[Any, Any]:
    """Return the names of the feature columns and how they were encoded, None if unknown."""
    if isinstance(data, Data):
        return column_names(data), data.get("encoding")
    names = getattr(data, "feature_names", None)
    return None if names is None else [str(name) for name in names], getattr(data, "encoding", None)
