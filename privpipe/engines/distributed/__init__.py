"""What Dask and Spark answer alike: functions of one partition, and of what meets in one place, over Arrow batches.

The engines move the batches: each maps functions over partitions, brings together what shares a word, and merges
figures. It may import neither library.
"""
