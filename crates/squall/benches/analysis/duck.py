# Reads every column of the tables of a trial once with DuckDB; `contenders.rs` of the bench starts it.
#
# bit_xor needs each value of its column, which no metadata of a file can tell, and is the cheapest such aggregate; of texts
# it takes their lengths, which DuckDB computes once for each entry of a dictionary. Prints the seconds of wall and
# processor time that the reading took, without Python's start, and the most memory of the process.
import resource
import sys
import time

import duckdb

folder, threads = sys.argv[1], int(sys.argv[2])
duck = duckdb.connect()
if threads:
    duck.execute(f"SET threads = {threads}")


def cell(name, kind):
    if kind == "VARCHAR":
        return f'bit_xor(strlen("{name}"))'
    if kind == "BOOLEAN":
        return f'bit_xor("{name}"::UTINYINT)'
    return f'bit_xor("{name}")'


def seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


before, began = seconds(), time.monotonic()
for table in sys.argv[3:]:
    file = f"'{folder}/{table}.parquet'"
    columns = duck.execute(f"DESCRIBE SELECT * FROM {file}").fetchall()
    cells = ", ".join(cell(column[0], column[1]) for column in columns)
    duck.execute(f"SELECT {cells} FROM {file}").fetchall()
wall, cpu = time.monotonic() - began, seconds() - before
print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
