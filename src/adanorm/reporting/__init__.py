"""Tables, figures and the report, from records alone and without torch."""
