"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from privpipe import errors as errors
from privpipe import measures as measures
from privpipe import models as models
from privpipe import observe as observe
from privpipe import transforms as transforms
from privpipe.blocks import Verdict as Verdict
from privpipe.checks import assess as assess
from privpipe.checks import check as check
from privpipe.checks import checked as checked
from privpipe.drafting.verbs import init as init
from privpipe.draws import Seed as Seed
from privpipe.hierarchies import Hierarchy as Hierarchy
from privpipe.judging import Assessment as Assessment
from privpipe.observe import average_risk as average_risk
from privpipe.observe import k_anonymity as k_anonymity
from privpipe.observe import l_diversity as l_diversity
from privpipe.observe import t_closeness as t_closeness
from privpipe.observe import uniqueness as uniqueness
from privpipe.policy import Policy as Policy
from privpipe.reporting.report import report as report
from privpipe.roles import Roles as Roles
from privpipe.running.comparing import compare as compare
from privpipe.running.cost.model import Cost as Cost
from privpipe.running.cost.verb import plan_cost as plan_cost
from privpipe.running.fetching import fetch as fetch
from privpipe.running.fetching import read_release as read_release
from privpipe.running.plan import Plan as Plan
from privpipe.running.validating import validate as validate
from privpipe.running.verbs import plan as plan
from privpipe.running.verbs import release as release
from privpipe.stages import transform as transform
from privpipe.transforms.face import FittedStage as FittedStage

__version__: str
