"""The metrics of the tasks: their table, BLEU, and scores from counts of single examples."""
