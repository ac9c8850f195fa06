"""Opens an export with another program's reader and prints what that found, as JSON.

Usage: readers.py har FILE | readers.py openmetrics FILE | readers.py histograms HLOG HGRM

Judges nothing but the schema of HAR: the test compares the figures. har-schema-2.0.0 is the schema of har-validator:
all files of the npm package har-schema in one.
"""

import json
import pathlib
import sys

import haralyzer
import jsonschema
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT6

SCHEMAS = pathlib.Path(__file__).parent / "har-schema-2.0.0" / "har-schema.json"

# One hour in nanoseconds, and three digits: as in the export.
HIGHEST_NS, DIGITS = 3600 * 10**9, 3


def har(path):
    text = json.loads(pathlib.Path(path).read_text())
    schemas = json.loads(SCHEMAS.read_text())
    resources = [(name, Resource.from_contents(it, default_specification=DRAFT6)) for name, it in schemas.items()]
    validator = jsonschema.Draft6Validator(schemas["har.json"], registry=Registry().with_resources(resources))
    [page] = haralyzer.HarParser(text).pages
    return {
        "faults": [f"{list(fault.path)}: {fault.message}" for fault in validator.iter_errors(text)],
        "title": page.title,
        "entries": len(page.entries),
        "posts": len(page.post_requests),
        "total_ms": sum(entry.time for entry in page.entries),
    }


def openmetrics(path):
    families = text_string_to_metric_families(pathlib.Path(path).read_text())
    return {
        family.name: {
            "type": family.type,
            "unit": family.unit,
            "samples": [[sample.name, sample.labels, sample.value] for sample in family.samples],
        }
        for family in families
    }


def histograms(log, distribution):
    """All intervals of the log as one histogram, and the lines of the distribution that are not in it."""
    whole = HdrHistogram(1, HIGHEST_NS, DIGITS)
    reader = HistogramLogReader(log, whole)
    intervals = 0
    while reader.add_next_interval_histogram(dest_histogram=whole):
        intervals += 1
    steps = whole.get_recorded_iterator()
    recorded = {(round(step.value_iterated_to / 1e6, 3), step.total_count_to_this_value) for step in steps}
    lines = [line for line in pathlib.Path(distribution).read_text().splitlines()[2:] if not line.startswith("#")]
    values = [(float(value_ms), int(count)) for value_ms, _, count, _ in map(str.split, lines)]
    return {
        "intervals": intervals,
        "count": whole.get_total_count(),
        "max_ms": whole.get_max_value() / 1e6,
        "mean_ms": whole.get_mean_value() / 1e6,
        "lines": len(lines),
        "other_lines": [line for line, value in zip(lines, values) if value not in recorded],
    }


if __name__ == "__main__":
    readers = {"har": har, "openmetrics": openmetrics, "histograms": histograms}
    print(json.dumps(readers[sys.argv[1]](*sys.argv[2:])))
