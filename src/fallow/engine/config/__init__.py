"""The config is one TOML file, which is checked as a whole before any of it is used.

location        find the file and read it; readers.file_trust decides whether root may trust it
parse_toml      parse it                      toml_lines      the line of each key
parse_values    read values as people write   types           the types of the keys
model           the sections, with            fillers, rules
messages        pydantic's errors as sentences
crosschecks     keys that contradict each other
feasible        what this machine cannot do
load            all of it together            schema          the same for editors

Whoever finds no file loads only `location`: the model and pydantic take most of the time of a start.
"""
