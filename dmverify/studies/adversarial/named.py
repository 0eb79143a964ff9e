"""What the study is called: apart, as attacks need torch and the list of studies does not."""

NAME = "adversarial"
SUMMARY = "the worst dQ of every delta mode and cast that attacks find under the same constraints"
