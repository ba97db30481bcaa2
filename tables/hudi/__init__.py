"""Read a Hudi table of either type: its timeline as snapshots, changes and times of completion.

Whatever reads an instant, in the active timeline or behind it, raises FileNotFoundError if a writer has
archived, cleaned, merged or rolled back the instant since the timeline was read, and the caller looks anew;
MalformedLogError if its file is damaged, or has not the metadata or the schema that it should have;
UnsafePathError if a path in it leads out of the table; and UnsupportedFeatureError if it knows columns by
numbers and not by their names.
"""
