"""What the columns of a staged release have lost, by the rule of the policy."""

from __future__ import annotations

from privpipe.judging.column_loss import LossTable
from privpipe.judging.losing import LossAsked, labels_of, loss_table
from privpipe.judging.paired_sample import PairedSample, paired_sample
from privpipe.running.rules import withholds_counts
from privpipe.running.run_context import RunContext
from privpipe.running.staging import Staged

__all__ = ["count_original_labels", "lost_columns", "sample_of"]


def sample_of(context: RunContext, staged: Staged) -> PairedSample | None:
    """The records of a staged release beside their originals, with every column that both have."""
    both = [name for name in staged.table.schema.names if name in staged.original.schema.names]
    return paired_sample(context.engine, staged.table, staged.original, both) if both else None


def count_original_labels(context: RunContext, staged: Staged) -> None:
    """What `lost_columns` counts of a large original, so that an engine that remembers counts has them."""
    names = [name for name in staged.table.schema.names if name in staged.original.schema.names]
    if not withholds_counts(context.policy):
        labels_of(context.engine, staged.original, names, context.policy.suppression_mark)


def lost_columns(context: RunContext, staged: Staged, sample: PairedSample | None = None) -> LossTable:
    """What each column has lost.

    Under a model that forbids counts of the source nothing is compared with it.

    Parameters
    ----------
    sample : PairedSample, optional
        From `sample_of`, where it was brought already.
    """
    policy = context.policy
    withheld = withholds_counts(policy)
    if sample is None and not withheld:
        sample = sample_of(context, staged)
    asked = LossAsked(
        roles=policy.roles,
        stages=[
            {"name": each.name, "parameters": each.parameters, "detail": each.detail} for each in staged.plan.stages
        ],
        mark=policy.suppression_mark,
        hierarchies=staged.rules.hierarchies,
        pseudonyms=policy.pseudonyms,
        rule=policy.utility.column_loss,
        withheld=withheld,
    )
    return loss_table(context.engine, staged.seen, staged.original, asked, sample)
