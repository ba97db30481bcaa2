"""Read an Iceberg table: snapshots, the deletes that apply to each file, changes.

Whatever reads a file of the metadata raises FileNotFoundError if the file is gone, as when its snapshot has
expired meanwhile; MalformedLogError if it is damaged, or names a file twice; and UnsupportedFeatureError if a
manifest or a data file is encrypted, or a data file is not Parquet.
"""
