"""What can be done with the weights of a run that was trained here."""
