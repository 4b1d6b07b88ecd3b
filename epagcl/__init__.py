"""Label-free node embeddings: graph contrastive learning with edges added and dropped by their error passing rate."""

from epagcl.core import moved
from epagcl.core.lazy import attach
from epagcl.core.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:  # the public names; each is imported on first use
    from epagcl import data as data
    from epagcl import distributed as distributed
    from epagcl import epr as epr
    from epagcl import evaluation as evaluation
    from epagcl import losses as losses
    from epagcl import methods as methods
    from epagcl import report as report
    from epagcl import runs as runs
    from epagcl import tasks as tasks
    from epagcl import views as views
    from epagcl.core import errors as errors
    from epagcl.data import from_hetero as from_hetero
    from epagcl.data import from_networkx as from_networkx
    from epagcl.data import from_scipy as from_scipy
    from epagcl.data import from_tables as from_tables
    from epagcl.data import ingest as ingest
    from epagcl.data import load as load
    from epagcl.data import read_graph as read_graph
    from epagcl.data import structural_features as structural_features
    from epagcl.epr import epr_change as epr_change
    from epagcl.epr import epr_change_predicted as epr_change_predicted
    from epagcl.epr import error_passing_rate as error_passing_rate
    from epagcl.evaluation import health as health
    from epagcl.evaluation import linear_evaluation as linear_evaluation
    from epagcl.integrations import loggers as loggers
    from epagcl.integrations.doctor import doctor as doctor
    from epagcl.integrations.sklearn import NodeEmbedder as NodeEmbedder
    from epagcl.losses import info_nce as info_nce
    from epagcl.methods import load_model as load_model
    from epagcl.methods import method as method
    from epagcl.methods import recommend as recommend
    from epagcl.methods.bgrl import BGRL as BGRL
    from epagcl.methods.cca_ssg import CCASSG as CCASSG
    from epagcl.methods.dgi import DGI as DGI
    from epagcl.methods.epagcl import EPAGCL as EPAGCL
    from epagcl.methods.epagcl_plus import EPAGCLPlus as EPAGCLPlus
    from epagcl.methods.gat import SupervisedGAT as SupervisedGAT
    from epagcl.methods.gca import GCA as GCA
    from epagcl.methods.gcn import SupervisedGCN as SupervisedGCN
    from epagcl.methods.gmi import GMI as GMI
    from epagcl.methods.grace import GRACE as GRACE
    from epagcl.methods.greet import GREET as GREET
    from epagcl.methods.mvgrl import MVGRL as MVGRL
    from epagcl.methods.plan import plan as plan
    from epagcl.methods.propagated import Propagated as Propagated
    from epagcl.report.inline import show as show
    from epagcl.runs import reproduce as reproduce
    from epagcl.study import tuning as tuning
    from epagcl.study.tuning import tune as tune
    from epagcl.tasks import align as align
    from epagcl.tasks import anomaly_scores as anomaly_scores
    from epagcl.tasks import classify as classify
    from epagcl.tasks import cluster as cluster
    from epagcl.tasks import drift as drift
    from epagcl.tasks import nearest_neighbours as nearest_neighbours
    from epagcl.tasks import predict_links as predict_links
    from epagcl.views import edge_probabilities as edge_probabilities
    from epagcl.views import transforms as transforms

moved.install()
__getattr__, __dir__ = attach(__name__, __file__)
