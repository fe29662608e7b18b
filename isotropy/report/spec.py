"""What defines the results page."""

from __future__ import annotations

from isotropy.figures.catalogue import FigureSpec
from isotropy.spec import Spec, Strict
from isotropy.tables.catalogue import TableSpec


class Paper(Strict):
    """A paper as the page names it."""

    key: str
    title: str
    reference: str


class PageSpec(Spec):
    """What defines the page."""

    study: str
    papers: list[Paper]
    figures: list[FigureSpec]
    tables: list[TableSpec]


PAPERS = [
    Paper(
        key="claims", title="Verdicts", reference="Every claim of the papers against our numbers"
    ),
    Paper(
        key="mickus2024",
        title="Isotropy, Clusters, and Classifiers",
        reference="Mickus, Grönroos & Attieh (2024), ACL, short papers",
    ),
    Paper(
        key="rudman2024",
        title="Stable Anisotropic Regularization",
        reference="Rudman & Eickhoff (2024), ICLR, and its poster",
    ),
    Paper(
        key="rajaee2021",
        title="Cluster-based Isotropy Enhancement",
        reference="Rajaee & Pilehvar (2021), ACL, short papers, and the slides of Rajaee & "
        "Sheikhi (2020)",
    ),
    Paper(
        key="cai2021",
        title="Isotropy in the Contextual Embedding Space: Clusters and Manifolds",
        reference="Cai, Huang, Bian & Church (2021), ICLR, and its slides",
    ),
]
