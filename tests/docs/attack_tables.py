"""Rows of the tables of docs/attack.md, from the records."""

from statistics import median

from dmverify.studies.adversarial.cells import BOXES, CAPTURES, EVALUATIONS

OUTPUTS = {"o": "O", "dq": "dQ", "dk": "dK", "dv": "dV"}
KERNELS = ("bundled", "cudnn-fp8", "flash-3-fp8")
CONTRACTS = {"article": "matched", "article:delta=stale": "stale"}


def short(x):
    """Two digits, as the pages have them: 0.10 keeps its last one, 3.0 too."""
    return f"{x:#.2g}".rstrip(".")


def digits(x):
    """Three digits."""
    return f"{x:#.3g}".rstrip(".") if x < 1000 else f"{x:,.0f}"


def count(number, word, words):
    return f"{number} {word if number == 1 else words}"


def attack_rows(attacks):
    """A row an attack; those that are free say the smallest input."""
    for row in attacks:
        seeds, small = row["seeds"], row["smallest"]
        engine = max(row["engines"], key=row["engines"].get)
        span = f"{digits(seeds['smallest'])} to {digits(seeds['largest'])}"
        cells = [
            CONTRACTS[row["contract"]],
            OUTPUTS[row["output"]],
            place(row),
            f"{digits(seeds['median'])} ({span})",
            engine,
            f"{row['shares'][0]:.0%} to {row['shares'][-1]:.0%}",
        ]
        if not row["capture"]:
            queries = count(small["queries"], "query", "queries")
            cells.append(f"{queries}, {count(small['keys'], 'key', 'keys')}")
        yield f"| {' | '.join(cells)} |"


def place(row):
    """What an error is from, or the box around a capture."""
    return f"{row['capture']}, {100 * row['within']:g} %" if row["capture"] else row["against"]


def equal_rows(rows):
    """A row a comparison at equal time."""
    for row in rows:
        engine = max(row["engines"], key=row["engines"].get)
        cells = (
            CONTRACTS[row["contract"]],
            OUTPUTS[row["output"]],
            place(row),
            f"{row['seconds']:.0f}",
            f"{digits(row['drawn'])} ({row['draws']:,})",
            f"{digits(row['attacked'])} ({row['evaluations']:,})",
            f"{row['attacked'] / row['drawn']:.1f}",
            engine,
            f"{row['share']:.0%}",
        )
        yield f"| {' | '.join(cells)} |"


def rate_rows(rates):
    """Candidates a second on one core and on the card."""
    found = {(r["n"], r["head_dim"], r["against"], r["place"]): r["per_second"] for r in rates}
    for n, head_dim, against in dict.fromkeys(key[:3] for key in found):
        core, card = (found[n, head_dim, against, place] for place in ("core", "cuda"))
        cells = (f"{n}, {head_dim}", against, digits(core), f"{card:,.0f}", f"{card / core:.0f}")
        yield f"| {' | '.join(cells)} |"


def kernel_rows(record):
    """Every output of three kernels: N(0, 1), families, attacks."""
    plain, attacked = {}, {}
    for row in record["rows"]:
        key = (row["contract"], row["output"], row["against"])
        if row["case_id"].startswith("attack/"):
            attacked[key] = max(attacked.get(key, 0.0), row["value"])
        else:
            plain[key] = row["value"]
    families = {}
    for row in record["worst_of_families"]:
        key = (row["contract"], row["output"], row["against"])
        families.setdefault(key, []).append(row)
    for against in ("inputs", "operands"):
        for output, name in OUTPUTS.items():
            cells = []
            for kernel in KERNELS:
                key = (kernel, output, against)
                worst = families.get(key)
                if worst is None:
                    cells.append("")
                    continue
                cells.append(
                    f"{short(plain[key])}, {short(worst[0]['value'])}, {short(attacked[key])}"
                )
            yield f"| {against} | {name} | {' | '.join(cells)} |"


def study_rows(cells):
    """Of every mode and cast: worst dQ by length, and in boxes around a capture."""
    modes = dict.fromkeys((row["delta"], row["ds_cast"]) for row in cells)
    for against in ("operands", "inputs"):
        some = [row for row in cells if row["against"] == against]
        for delta, ds_cast in modes:
            mine = [row for row in some if (row["delta"], row["ds_cast"]) == (delta, ds_cast)]
            lengths = ([r["worst"] for r in mine if r["place"] == n] for n in EVALUATIONS)
            yield f"| {delta}, {ds_cast}, {against} | {' | '.join(map(spread, lengths))} |"
            boxes = (
                [r["worst"] for r in mine if (r["place"], r["within"]) == (capture, within)]
                for capture in CAPTURES
                for within in BOXES
            )
            yield f"| {delta}, {ds_cast}, {against} | {' | '.join(map(spread, boxes))} |"


def spread(values):
    """Median and range of the seeds."""
    if not values:
        return ""
    if len(values) == 1:
        return short(values[0])
    return f"{short(median(values))} ({short(min(values))} to {short(max(values))})"


ASKED = ("bundled", "bundled:delta=stale", "bundled:ds_cast=zero-sum", "cudnn-fp8", "flash-3-fp8")


def sought_rows(record, entries):
    """Every shipped input of head_dim 128, and what kernels answered in what it was sought for."""
    answers = {
        tuple(row[key] for key in ("case_id", "contract", "output", "against")): row["value"]
        for row in record["rows"]
    }
    wide = [e.found for e in entries if e.problem.head_dim == 128 and e.found.objective in OUTPUTS]
    for found in sorted(wide, key=lambda f: (f.against, f.contract, -f.value)):
        name, against = found.objective, found.against
        keys = ((f"attack/{found.inputs[:16]}", one, name, against) for one in ASKED)
        cells = (digits(answers[key]) if key in answers else "" for key in keys)
        mode = CONTRACTS.get(found.contract, found.contract.rpartition("=")[2])
        head = (mode, OUTPUTS[name], against, digits(found.value))
        yield f"| {' | '.join([*head, *cells])} |"
