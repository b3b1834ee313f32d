"""The experiment's fixed choices (protected)."""

FEATURES = (
    "age",  # years
    "priors_count",  # prior convictions
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "felony",  # 1 if the current charge is a felony, 0 if a misdemeanor
    "male",
)
GROUPS = ("African-American", "Caucasian")  # values 0 and 1 of `group`

REPLICATES = 20
SHARE = 0.8  # part of the training rows that a replicate sees
